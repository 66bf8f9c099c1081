//! From a command's result to the process's exit code.

use lab_image::ImageError;

const DONE: u8 = 0;
const FAILED: u8 = 1;
// 2 is clap's, for wrong usage.
const MALFORMED_INPUT: u8 = 3;
const BROKEN_RULES: u8 = 4;
// `check` has codes of its own, which its help lists.
const FINDINGS: u8 = 1;
const COULD_NOT_CHECK: u8 = 2;

/// The driver broke a rule, or left something behind; all about it has been printed.
#[derive(Debug, thiserror::Error)]
#[error("the driver broke a rule")]
pub(crate) struct BrokenRules;

/// `drydock check` has found something, or reproduced it; all about it has been printed.
#[derive(Debug, thiserror::Error)]
#[error("the driver broke a rule")]
pub(crate) struct Findings;

/// `drydock check` could not be made, for this reason; empty if it has been printed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct CouldNotCheck(pub(crate) String);

/// Prints an error, once and with its causes, and chooses the exit code.
pub(crate) fn report(result: anyhow::Result<()>) -> u8 {
    let Err(error) = result else {
        return DONE;
    };
    if is_closed_pipe(&error) {
        return DONE;
    }
    if error.is::<BrokenRules>() {
        return BROKEN_RULES;
    }
    if error.is::<Findings>() {
        return FINDINGS;
    }
    if let Some(CouldNotCheck(why)) = error.downcast_ref() {
        if !why.is_empty() {
            eprintln!("drydock: {why}");
        }
        return COULD_NOT_CHECK;
    }
    eprintln!("drydock: {error:#}");
    let malformed = error.chain().any(|cause| cause.is::<ImageError>());
    if malformed { MALFORMED_INPUT } else { FAILED }
}

/// Whether the reader of the output has seen enough (`drydock … | head`).
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let closed = Some(std::io::ErrorKind::BrokenPipe);
    let kind = error
        .downcast_ref::<std::io::Error>()
        .map(std::io::Error::kind);
    let of_json = error
        .downcast_ref::<serde_json::Error>()
        .and_then(serde_json::Error::io_error_kind);
    kind == closed || of_json == closed
}
