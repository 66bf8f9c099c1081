use super::*;
use crate::profile::{
    fixture::{Fixture, HOT_LINE, function},
    module::Piece,
};
use std::fs;

/// The frames at each byte of `hot`, as one line each: `function:line < function:line`.
fn stacks(symbols: &mut Symbols, image: &Path, range: Range<u64>) -> Vec<String> {
    let file = symbols.file(image).unwrap();
    let mut stacks: Vec<String> = range
        .map(|address| {
            let resolved = symbols.within(&file, address);
            let frame = |frame: &Frame| {
                let line = frame
                    .line
                    .map_or(String::from("?"), |line| line.to_string());
                format!("{}:{line}", frame.function.as_deref().unwrap_or("?"))
            };
            let frames: Vec<String> = resolved.frames.iter().map(frame).collect();
            frames.join(" < ")
        })
        .collect();
    stacks.dedup();
    stacks
}

fn hot_stack() -> String {
    format!("inner:{HOT_LINE} < hot:10")
}

#[test]
fn elf_has_functions_inlined_functions_and_lines_from_dwarf() {
    let fixture = Fixture::new();
    let image = fixture.elf();
    let mut symbols = Symbols::new();
    let range = function(&image, "hot");
    let stacks = stacks(&mut symbols, &image, range.clone());
    assert!(stacks.contains(&hot_stack()), "{stacks:#?}");
    let file = symbols.file(&image).unwrap();
    let resolved = symbols.within(&file, range.start);
    assert_eq!(resolved.function(), Some("hot"));
    assert_eq!(resolved.range, Some(range));
    assert!(resolved.line().unwrap().0.ends_with("/hot.c"));
    assert_eq!(symbols.take_warnings(), [] as [String; 0]);
}

#[test]
fn pe_has_the_same_from_its_pdb() {
    let fixture = Fixture::new();
    let image = fixture.pe("x86_64");
    let mut symbols = Symbols::new();
    let range = function(&image, "hot");
    let stacks = stacks(&mut symbols, &image, range.clone());
    assert!(stacks.contains(&hot_stack()), "{stacks:#?}");
    let file = symbols.file(&image).unwrap();
    assert_eq!(file.debug_file, Some(fixture.path("hot.pdb")));
    assert_eq!(symbols.within(&file, range.start).function(), Some("hot"));
}

#[test]
fn a_pdb_of_another_build_is_refused_and_the_exports_are_left() {
    let fixture = Fixture::new();
    let image = fixture.pe("x86_64");
    let other = Fixture::new();
    fs::write(
        other.path("hot.c"),
        "int hot(void) { return 2; } int start(void) { return hot(); }",
    )
    .unwrap();
    other.run(
        "clang",
        &[
            "--target=x86_64-pc-windows-msvc",
            "-g",
            "-gcodeview",
            "-c",
            "-o",
            "hot.obj",
            "hot.c",
        ],
    );
    other.run(
        "lld-link",
        &[
            "/dll",
            "/nodefaultlib",
            "/entry:start",
            "/debug",
            "/out:hot.dll",
            "hot.obj",
        ],
    );
    fs::copy(other.path("hot.pdb"), fixture.path("hot.pdb")).unwrap();
    let mut symbols = Symbols::new();
    let range = function(&image, "hot");
    let file = symbols.file(&image).unwrap();
    let resolved = symbols.within(&file, range.start);
    assert_eq!((resolved.function(), resolved.line()), (Some("hot"), None));
    let warnings = symbols.take_warnings();
    assert!(
        warnings[0].contains("is not of the same build as"),
        "{warnings:?}"
    );
}

#[test]
fn debug_information_in_a_file_of_its_own_is_found_by_its_link() {
    let fixture = Fixture::new();
    let image = fixture.elf();
    let range = function(&image, "hot");
    fixture.run("objcopy", &["--only-keep-debug", "hot", "hot.debug"]);
    fixture.run(
        "objcopy",
        &["--strip-all", "--add-gnu-debuglink=hot.debug", "hot"],
    );
    let mut symbols = Symbols::new();
    let stacks = stacks(&mut symbols, &image, range.clone());
    assert!(stacks.contains(&hot_stack()), "{stacks:#?}");
    let file = symbols.file(&image).unwrap();
    assert_eq!(file.debug_file, Some(fixture.path("hot.debug")));
    let resolved = symbols.within(&file, range.start);
    assert_eq!(
        resolved.range,
        Some(range),
        "of the other file's symbol table"
    );
}

#[test]
fn without_debug_information_the_symbol_table_is_left_and_without_that_nothing() {
    let fixture = Fixture::new();
    let image = fixture.elf();
    let range = function(&image, "hot");
    fixture.run("strip", &["--strip-debug", "hot"]);
    let at = |symbols: &mut Symbols| {
        let file = symbols.file(&image).unwrap();
        symbols.within(&file, range.start)
    };
    let resolved = at(&mut Symbols::new());
    assert_eq!((resolved.function(), resolved.line()), (Some("hot"), None));
    fixture.run("strip", &["--strip-all", "hot"]);
    assert_eq!(at(&mut Symbols::new()).function(), None);
}

#[test]
fn addresses_in_memory_lead_to_the_image_wherever_it_is_mapped() {
    let fixture = Fixture::new();
    let range = function(&fixture.elf(), "hot");
    let image = Image::open(&fixture.path("hot")).unwrap();
    // Where the function's bytes are in the file is where a mapping of the whole file has them.
    let code = image.bytes(range.clone()).unwrap();
    let offset = code.as_ptr().addr() - image.data().as_ptr().addr();
    let base = 0x7f00_0000_0000;
    let module = Module {
        pid: 1,
        path: fixture.path("hot"),
        name: "hot".into(),
        base,
        pieces: vec![Piece {
            start: base,
            end: base + 0x10_0000,
            offset: 0,
        }],
    };
    let address = base + u64::try_from(offset).unwrap();
    let resolved = Symbols::new().at(&module, address);
    assert_eq!(resolved.function(), Some("hot"));
    assert_eq!(resolved.address, range.start);
}

#[test]
fn dwarf_in_a_pe_file_serves_where_there_is_no_pdb() {
    let fixture = Fixture::new();
    fixture.run(
        "x86_64-w64-mingw32-gcc",
        &["-g", "-O1", "-shared", "-o", "hot.dll", "hot.c"],
    );
    let image = fixture.path("hot.dll");
    let range = function(&image, "hot");
    let stacks = stacks(&mut Symbols::new(), &image, range);
    let hot = format!("inner:{HOT_LINE} < hot:");
    assert!(
        stacks.iter().any(|stack| stack.starts_with(&hot)),
        "{stacks:#?}"
    );
}

#[test]
fn what_is_no_executable_is_named_once() {
    let fixture = Fixture::new();
    let mut symbols = Symbols::new();
    assert!(symbols.file(&fixture.path("hot.c")).is_none());
    assert!(symbols.file(&fixture.path("hot.c")).is_none());
    assert!(symbols.file(Path::new("[vdso]")).is_none());
    let warnings = symbols.take_warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].starts_with("warning: no symbols: "),
        "{warnings:?}"
    );
}
