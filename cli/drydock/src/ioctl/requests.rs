//! Requests as they are written on the command line: `CODE [--in HEX] [--out N] CODE …`.

use anyhow::{Context, bail};

/// Longest input or output, in bytes.
const MAX_BYTES: usize = 16 << 20;

/// A control request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Request {
    /// The control code.
    pub(super) code: u32,
    /// Its input.
    pub(super) input: Vec<u8>,
    /// Room for output, in bytes.
    pub(super) output: usize,
}

/// Reads requests, and whether `--json` is among them.
///
/// Errors: the first word that is none of what may be there.
pub(super) fn parse(words: &[String]) -> anyhow::Result<(Vec<Request>, bool)> {
    let mut requests: Vec<Request> = Vec::new();
    let mut json = false;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--json" => json = true,
            "--in" | "--out" => {
                let value = words
                    .next()
                    .with_context(|| format!("{word} needs a value"))?;
                let request = requests
                    .last_mut()
                    .with_context(|| format!("{word} comes behind the code it is for"))?;
                if word == "--in" {
                    request.input = bytes(value)?;
                } else {
                    request.output = length(value)?;
                }
            }
            code => requests.push(Request {
                code: number(code)?,
                input: Vec::new(),
                output: 0,
            }),
        }
    }
    if requests.is_empty() {
        bail!("no control code is given");
    }
    Ok((requests, json))
}

fn number(text: &str) -> anyhow::Result<u32> {
    let parsed = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed
        .with_context(|| format!("`{text}` is no control code: write it like 0x222000 or 2236416"))
}

fn length(text: &str) -> anyhow::Result<usize> {
    let len: usize = text
        .parse()
        .with_context(|| format!("`{text}` is no number of bytes"))?;
    if len > MAX_BYTES {
        bail!("{len} bytes of output: more than {MAX_BYTES}");
    }
    Ok(len)
}

/// Bytes in hexadecimal, with spaces where you like.
fn bytes(text: &str) -> anyhow::Result<Vec<u8>> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    let wrong = || format!("`{text}` is no input: write bytes in hexadecimal, two digits each");
    if !digits.len().is_multiple_of(2) || digits.len() > 2 * MAX_BYTES {
        bail!(wrong());
    }
    let byte = |pair: &[char]| {
        let value = |c: char| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        Some(value(pair[0])? << 4 | value(pair[1])?)
    };
    digits
        .chunks(2)
        .map(|pair| byte(pair).with_context(wrong))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> anyhow::Result<(Vec<Request>, bool)> {
        let words: Vec<String> = text.split('|').map(str::to_owned).collect();
        parse(&words)
    }

    #[test]
    fn each_option_belongs_to_the_code_before_it() {
        let (requests, json) = of("0x222000|--in|00 fF|--out|16|2236420|--json").expect("right");
        let expected = [
            Request {
                code: 0x22_2000,
                input: vec![0, 255],
                output: 16,
            },
            Request {
                code: 0x22_2004,
                input: Vec::new(),
                output: 0,
            },
        ];
        assert_eq!((requests.as_slice(), json), (&expected[..], true));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, named) in [
            ("--in|00", "--in"),
            ("0x1|--out", "--out"),
            ("0x1|--in|0", "`0`"),
            ("0x1|--in|zz", "`zz`"),
            ("0x1|--out|many", "`many`"),
            ("0x1|--out|999999999", "999999999"),
            ("0x1ffffffff", "0x1ffffffff"),
            ("--oops", "--oops"),
            ("--json", "no control code"),
        ] {
            let error = of(text).expect_err(text).to_string();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
