//! How a run ends: one table of exit codes, for the program, `--help` and the manual.

use std::fmt::Write;

macro_rules! outcomes {
    ($( $name:ident = $code:literal, $meaning:literal; )*) => {
        /// How a run ended.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Outcome { $( #[doc = $meaning] $name, )* }

        impl Outcome {
            /// All of them, in the order of their codes.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The process's exit code.
            #[must_use]
            pub const fn code(self) -> u8 { match self { $(Self::$name => $code,)* } }

            /// What the code means, in a sentence.
            #[must_use]
            pub const fn meaning(self) -> &'static str { match self { $(Self::$name => $meaning,)* } }
        }
    };
}

outcomes! {
    Success = 0, "Done, or ended by Ctrl-C and printed.";
    Failure = 1, "Anything that went wrong and has no code of its own: no driver, a name that is not known, a file that cannot be written.";
    Usage = 2, "The command line is not understood.";
    Busy = 3, "Another process holds the PMU; it is named with the time since when.";
    ForcedOut = 4, "Another process took the PMU over by force; what was counted or sampled is lost.";
    NotImplemented = 5, "Something of WindowsPerf that this version does not have: sampling by SPE.";
    DriverStopped = 6, "The docked driver stopped the lab; the stop report is printed.";
}

/// The table as indented text.
#[must_use]
pub fn table_text() -> String {
    let mut text = String::new();
    for outcome in Outcome::ALL {
        let line = format!("{:>4}  {}", outcome.code(), outcome.meaning());
        let options = textwrap::Options::new(81).subsequent_indent("      ");
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", textwrap::fill(&line, options));
    }
    text
}

/// The table as Markdown.
#[must_use]
pub fn table_markdown() -> String {
    let mut text = String::from("| Code | Meaning |\n|---|---|\n");
    for outcome in Outcome::ALL {
        let _ = writeln!(text, "| {} | {} |", outcome.code(), outcome.meaning());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_rise_from_zero_and_differ() {
        let codes: Vec<u8> = Outcome::ALL.iter().map(|o| o.code()).collect();
        assert_eq!(codes, (0..7).collect::<Vec<u8>>());
    }
}
