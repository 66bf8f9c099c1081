//! Programs for tests, built by clang as they are needed.

use super::image::Image;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// `inner` is inlined into `hot`, and works at line 4.
pub(crate) const SOURCE: &str = "\
static volatile long sink;
static inline __attribute__((always_inline)) void inner(long n) {
    for (long i = 0; i < n; i++)
        sink += i * n;
}
#ifdef _WIN32
__declspec(dllexport)
#endif
__attribute__((noinline)) long hot(long n) {
    inner(n);
    return sink;
}
int start(void) {
    return (int)hot(100);
}
int main(void) {
    return start();
}
";

/// The line of `SOURCE` at which `inner` works.
pub(crate) const HOT_LINE: u32 = 4;

/// A folder with the source in it.
pub(crate) struct Fixture {
    pub(crate) folder: tempfile::TempDir,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("hot.c"), SOURCE).unwrap();
        Self { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// An ELF program with DWARF.
    pub(crate) fn elf(&self) -> PathBuf {
        self.run("clang", &["-g", "-O1", "-o", "hot", "hot.c"]);
        self.path("hot")
    }

    /// A PE library for a processor, with a PDB beside it.
    pub(crate) fn pe(&self, processor: &str) -> PathBuf {
        let target = format!("--target={processor}-pc-windows-msvc");
        self.run(
            "clang",
            &[
                &target,
                "-g",
                "-gcodeview",
                "-O1",
                "-c",
                "-o",
                "hot.obj",
                "hot.c",
            ],
        );
        self.run(
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
        self.path("hot.dll")
    }

    pub(crate) fn run(&self, program: &str, arguments: &[&str]) {
        let output = Command::new(program)
            .args(arguments)
            .current_dir(self.folder.path())
            .output();
        let output = output.unwrap_or_else(|error| {
            panic!(
                "cannot run {program}: {error}; it is in Debian's packages clang, lld and binutils"
            )
        });
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program}: {text}");
    }
}

/// Where a function is in an image.
pub(crate) fn function(path: &Path, name: &str) -> std::ops::Range<u64> {
    let image = Image::open(path).unwrap();
    let mut functions = image.functions().iter();
    let found = functions.find(|function| function.name == name);
    found.unwrap_or_else(|| panic!("no {name}")).range.clone()
}
