//! The flavour `debug`: events as lines for the kernel debugger, at once.

use crate::Site;
use core::fmt::Write;
use trace_format::{Form, Kind};

/// Longest line; the rest is cut off.
///
/// Source: `DbgPrint`, wdm.h, which prints up to 512 bytes.
#[cfg(any(windows, test))]
const MOST_BYTES: usize = 480;

/// A line of text of limited length.
#[cfg(any(windows, test))]
struct Line {
    bytes: [u8; MOST_BYTES],
    used: usize,
}

#[cfg(any(windows, test))]
impl Line {
    const fn new() -> Self {
        Self {
            bytes: [0; MOST_BYTES],
            used: 0,
        }
    }

    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or_default()
    }
}

#[cfg(any(windows, test))]
impl Write for Line {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        for (place, byte) in self.bytes.iter_mut().skip(self.used).zip(text.bytes()) {
            *place = byte;
            self.used += 1;
        }
        Ok(())
    }
}

/// Writes an event as the decoder would.
///
/// # Errors
/// What `line` says.
pub fn write(line: &mut impl Write, site: &Site, words: &[u64]) -> core::fmt::Result {
    let mark = match site.form {
        Form::Message => "",
        Form::Enter => " >",
        Form::Exit | Form::ScopeExit => " <",
    };
    write!(
        line,
        "[{}] {}{mark} {}",
        site.level.name(),
        site.module,
        site.text
    )?;
    let mut words = words.iter().copied();
    for field in site.fields {
        let word = words.next().unwrap_or(0);
        write!(line, " {}=", field.name())?;
        let named = field.names().iter().find(|(value, _)| *value == word);
        match (field.kind(), named) {
            (_, Some((_, name))) => line.write_str(name)?,
            (Kind::Unsigned | Kind::Enum, None) => write!(line, "{word}")?,
            (Kind::Signed, None) => write!(line, "{}", word.cast_signed())?,
            (Kind::Bool, None) => write!(line, "{}", word != 0)?,
            (Kind::Guid, None) => write!(line, "{word:#x} {:#x}", words.next().unwrap_or(0))?,
            (Kind::Text | Kind::Bytes, None) => {
                let bytes = word & !trace_format::site::CUT;
                let mut left = usize::try_from(bytes).unwrap_or(0);
                let is_text = field.kind() == Kind::Text;
                for word in words.by_ref().take(left.div_ceil(8)) {
                    let chunk = word.to_le_bytes();
                    let chunk = chunk.get(..left.min(8)).unwrap_or_default();
                    left -= chunk.len();
                    for byte in chunk {
                        if is_text && byte.is_ascii_graphic() {
                            line.write_char(char::from(*byte))?;
                        } else {
                            write!(line, "{byte:02x}")?;
                        }
                    }
                }
            }
            (_, None) => write!(line, "{word:#x}")?,
        }
    }
    Ok(())
}

/// Prints an event.
#[cfg(windows)]
#[expect(unsafe_code, reason = "calls the kernel")]
#[cold]
pub fn print(site: &Site, words: &[u64]) {
    let mut line = Line::new();
    // Writing to a line cannot fail.
    let _ = write(&mut line, site, words);
    let text = line.as_bytes();
    let length = i32::try_from(text.len()).unwrap_or(0);
    let format = c"%.*s\n".as_ptr().cast::<u8>();
    // SAFETY: a length, and a text of that length, as the format says.
    unsafe { nt::dbg::DbgPrint(format, length, text.as_ptr()) };
}

/// Off Windows there is no kernel debugger.
#[cfg(not(windows))]
pub fn print(_: &Site, _: &[u64]) {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Argument, Flag, Words};

    #[test]
    fn a_line_says_what_the_event_carries() {
        const SITE: Site = crate::__site!(Cold Message Warning, Flag::new(1, "IO"), "it is",
            count: u32, by: i64, flag: bool, name: &str, status: nt::status::NTSTATUS);
        let mut words: Words = Words::new();
        7u32.push(&mut words);
        (-3i64).push(&mut words);
        true.push(&mut words);
        "queue".push(&mut words);
        nt::status::NTSTATUS::from_u32(0xC000_0001).push(&mut words);
        let mut line = Line::new();
        write(&mut line, &SITE, words.as_slice()).unwrap();
        assert_eq!(
            core::str::from_utf8(line.as_bytes()).unwrap(),
            "[warning] trace::debug::tests it is count=7 by=-3 flag=true name=queue status=0xc0000001"
        );
    }
}
