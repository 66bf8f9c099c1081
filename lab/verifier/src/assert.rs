//! Verdicts in tests.

use crate::report::Verdict;

impl Verdict {
    /// Passes if no rule was broken and nothing was left behind.
    ///
    /// # Panics
    /// Otherwise, with everything there is to say.
    #[track_caller]
    pub fn assert_clean(&self) {
        assert!(self.is_clean(), "the driver is not clean\n{self}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Leak;

    #[test]
    fn nothing_is_clean() {
        Verdict::default().assert_clean();
    }

    #[test]
    #[should_panic(expected = "LEFT BEHIND a block [pool-leak]")]
    fn what_is_left_behind_is_said() {
        let leak = Leak {
            rule: "pool-leak",
            what: "a block".into(),
            taken_at: None,
        };
        Verdict {
            leaks: vec![leak],
            ..Verdict::default()
        }
        .assert_clean();
    }
}
