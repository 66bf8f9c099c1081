use super::*;
use crate::profile::{
    fixture::{Fixture, HOT_LINE, SOURCE, function},
    hot::HotFunction,
};

/// `hot` of an image, with a sample at each of its bytes that are of the line.
fn hot(image: &Path, symbols: &mut Symbols) -> HotFunction {
    let file = symbols.file(image).unwrap();
    let addresses = function(image, "hot");
    let hits = addresses.filter_map(|address| {
        let resolved = symbols.within(&file, address);
        let (_, line) = resolved.line()?;
        (line == HOT_LINE).then_some((address, 1))
    });
    let hits: BTreeMap<u64, u64> = hits.collect();
    HotFunction::new(Some("hot".into()), image, hits)
}

fn check(image: &Path, multiplication: &str) {
    let mut symbols = Symbols::new();
    let hot = hot(image, &mut symbols);
    let lines = function_lines(&hot, &mut symbols);
    assert_eq!(lines.len(), 1, "{lines:#?}");
    let line = &lines[0];
    assert!(line.file.ends_with("hot.c"), "{}", line.file);
    assert_eq!((line.number, line.hits), (HOT_LINE, hot.count));
    let own = SOURCE.lines().nth(3).map(str::to_owned);
    assert_eq!(line.text, own);
    assert_eq!(line.address, *hot.hits.first_key_value().unwrap().0);
    let texts: Vec<&str> = line.instructions.iter().map(|i| i.text.as_str()).collect();
    assert!(
        texts.iter().any(|text| text.starts_with(multiplication)),
        "{texts:#?}"
    );
    assert!(line.instructions.iter().any(|i| i.address == line.address));
}

fn function_lines(hot: &HotFunction, symbols: &mut Symbols) -> Vec<Line> {
    super::function(hot, symbols, &mut Sources::default(), true)
}

#[test]
fn lines_and_instructions_of_elf() {
    let fixture = Fixture::new();
    check(&fixture.elf(), "add ");
}

#[test]
fn lines_and_instructions_of_pe() {
    let fixture = Fixture::new();
    check(&fixture.pe("x86_64"), "add ");
}

#[test]
fn lines_and_instructions_of_arm64() {
    let fixture = Fixture::new();
    check(&fixture.pe("aarch64"), "add ");
}

#[test]
fn a_function_without_lines_has_none() {
    let hot = HotFunction::new(None, Path::new("[vdso]"), BTreeMap::from([(1, 1)]));
    assert_eq!(function_lines(&hot, &mut Symbols::new()), []);
}
