//! Marks the section of DriverEntry as one that the system may discard: Rust cannot say that itself.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let target = std::env::var("TARGET").unwrap_or_default();
    if target.ends_with("windows-msvc") {
        println!("cargo:rustc-link-arg-bins=/SECTION:INIT,ERD");
    }
}
