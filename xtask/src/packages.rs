//! Debian packages that the tests need.

use std::path::Path;
use std::process::Command;

use anyhow::bail;

use crate::build::run;

/// A package and a file that shows it is there.
const PACKAGES: [(&str, &str); 2] = [
    ("wine64", "/usr/lib/wine/wine64"),
    ("gcc-mingw-w64-x86-64", "/usr/bin/x86_64-w64-mingw32-gcc"),
];

/// Installs what is missing, or says what is.
pub(crate) fn install() -> anyhow::Result<()> {
    let missing: Vec<_> = PACKAGES
        .iter()
        .filter(|(_, file)| !Path::new(file).exists())
        .map(|(package, _)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    if !is_root() || !Path::new("/usr/bin/apt-get").exists() {
        bail!("the tests need these packages (Debian's names): {list}");
    }
    println!("installing {list}");
    run(Command::new("apt-get").args(["update", "-qq"]))?;
    let mut install = Command::new("apt-get");
    install
        .args(["install", "-y", "-qq", "--no-install-recommends"])
        .args(&missing);
    run(install.env("DEBIAN_FRONTEND", "noninteractive"))
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
