//! Names of functions as compilers mangle them, and as people read them.

use cpp_demangle::{DemangleOptions, Symbol};
use msvc_demangler::DemangleFlags;

/// How much of a name is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Path and name.
    #[default]
    Short,
    /// As the linker has it.
    Long,
}

/// A name of the linker's, as it is shown.
#[must_use]
pub fn readable(name: &str, style: Style) -> String {
    match style {
        Style::Long => name.to_owned(),
        Style::Short => short(name).unwrap_or_else(|| name.to_owned()),
    }
}

/// The better of two names of a function. Debug information of lines only has names without their paths; what the linker
/// has may be a part of the function, or another that has the same code.
#[must_use]
pub fn fuller(known: String, linker: &str, style: Style) -> String {
    if style == Style::Long {
        return linker.to_owned();
    }
    let own = known.split('<').next().unwrap_or_default();
    match short(linker) {
        Some(name) if !own.is_empty() && name.ends_with(&format!("::{own}")) => name,
        _ => known,
    }
}

fn short(name: &str) -> Option<String> {
    if name.starts_with('?') {
        return msvc_demangler::demangle(name, DemangleFlags::NAME_ONLY).ok();
    }
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return Some(format!("{rust:#}"));
    }
    if !name.starts_with("_Z") {
        return None;
    }
    let options = DemangleOptions::new().no_params().no_return_type();
    Symbol::new(name).ok()?.demangle(&options).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_of_all_compilers_are_readable() {
        for (mangled, name) in [
            ("main", "main"),
            ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("_ZN2ns3FooIiE3barEi", "ns::Foo<int>::bar"),
            (
                "_ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_PKc",
                "std::operator<< <std::char_traits<char> >",
            ),
            ("?bar@Foo@ns@@QEAAHH@Z", "ns::Foo::bar"),
            ("_Zbroken", "_Zbroken"),
            ("?", "?"),
        ] {
            assert_eq!(readable(mangled, Style::Short), name);
            assert_eq!(readable(mangled, Style::Long), mangled);
        }
    }

    #[test]
    fn the_linkers_name_is_taken_for_its_path_only() {
        let rust = "_ZN4core3fmt5write17h0123456789abcdefE";
        for (known, linker, name) in [
            ("write", rust, "core::fmt::write"),
            ("write<u8>", rust, "core::fmt::write"),
            ("other", rust, "other"),
            ("core::fmt::write", rust, "core::fmt::write"),
            ("hot", "hot.constprop.0", "hot"),
        ] {
            assert_eq!(fuller(known.into(), linker, Style::Short), name);
            assert_eq!(fuller(known.into(), linker, Style::Long), linker);
        }
    }

    proptest! {
        #[test]
        fn no_name_makes_it_panic(name in "(_Z|_R|\\?)?[A-Za-z0-9@_]{0,30}") {
            let _ = readable(&name, Style::Short);
        }
    }
}
