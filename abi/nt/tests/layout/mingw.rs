//! Values of C constant expressions, by way of mingw-w64's gcc: they are
//! compiled into an array, which is then read from the object file.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use object::{Object, ObjectSection};

const COMPILER: &str = "x86_64-w64-mingw32-gcc";
const PACKAGE: &str = "gcc-mingw-w64-x86-64";
const HEADERS: &str = "/usr/share/mingw-w64/include/ddk";

/// The value of each expression, as an unsigned 64-bit integer; `name` is that of the scratch file.
pub(crate) fn evaluate(name: &str, expressions: &[&str]) -> Vec<u64> {
    // Windows 10, so that the headers declare what is newer than XP.
    let mut source = String::from(
        "#define _WIN32_WINNT 0x0A00\n#define NTDDI_VERSION 0x0A000000\n\
         #include <ntifs.h>\n#include <ntddk.h>\n#include <bugcodes.h>\n#include <ntstatus.h>\n\
         __attribute__((section(\"facts\"))) const unsigned long long facts[] = {\n",
    );
    for expression in expressions {
        let _ = writeln!(source, "(unsigned long long)({expression}),");
    }
    source.push_str("};\n");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (input, output) = (
        folder.join(format!("{name}.c")),
        folder.join(format!("{name}.o")),
    );
    std::fs::write(&input, source).expect("the target folder is writable");
    let run = Command::new(COMPILER)
        .args(["-c", "-w", "-I", HEADERS, "-o"])
        .args([&output, &input])
        .output();
    let run = run.unwrap_or_else(|error| {
        panic!("cannot run {COMPILER}: {error}; it is in Debian's package {PACKAGE}")
    });
    let messages = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{COMPILER} refuses:\n{messages}");
    read(&std::fs::read(&output).expect("gcc wrote the object file"))
        .into_iter()
        .take(expressions.len())
        .collect()
}

fn read(object: &[u8]) -> Vec<u64> {
    let object = object::File::parse(object).expect("an object file");
    let section = object
        .section_by_name("facts")
        .expect("the array's section");
    let data = section.data().expect("the array");
    let (words, _) = data.as_chunks::<8>();
    words.iter().map(|word| u64::from_le_bytes(*word)).collect()
}
