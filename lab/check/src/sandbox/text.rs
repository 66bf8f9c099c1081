//! Where this process's own code is.

use core::ops::Range;

/// Address ranges of the program, its libraries and the kernel's page of calls.
///
/// Errors: the kernel does not tell, or tells something odd.
pub(super) fn ranges() -> Result<Vec<Range<u64>>, String> {
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(|error| format!("/proc/self/maps: {error}"))?;
    let ranges: Vec<_> = maps.lines().filter_map(own_code).collect();
    if ranges.is_empty() {
        return Err("/proc/self/maps names no code".to_owned());
    }
    Ok(ranges)
}

/// The range of a line, if it is executable and from a file. Driver images and thunks are from none.
fn own_code(line: &str) -> Option<Range<u64>> {
    let mut fields = line.split_ascii_whitespace();
    let (range, protection) = (fields.next()?, fields.next()?);
    let name = fields.nth(3)?;
    let is_host = (name.starts_with('/') && !name.starts_with("/memfd:")) || name == "[vdso]";
    if !protection.contains('x') || !is_host {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_from_files_counts_and_nothing_else() {
        let line = |rest: &str| own_code(&format!("1000-3000 {rest}"));
        assert_eq!(line("r-xp 00000000 fe:00 1 /usr/bin/x"), Some(0x1000..0x3000));
        assert_eq!(line("r-xp 00000000 00:00 0 [vdso]"), Some(0x1000..0x3000));
        for other in [
            "r--p 00000000 fe:00 1 /usr/bin/x",
            "r-xp 00000000 00:01 9 /memfd:image (deleted)",
            "r-xp 00000000 00:00 0",
            "rw-p 00000000 00:00 0 [stack]",
        ] {
            assert_eq!(line(other), None, "{other}");
        }
    }

    #[test]
    fn this_function_is_own_code() {
        let here = this_function_is_own_code as *const () as u64;
        let ranges = ranges().expect("Linux tells");
        assert!(ranges.iter().any(|range| range.contains(&here)));
    }
}
