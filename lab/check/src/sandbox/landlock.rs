//! No file, no port, no other process: Landlock.

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetError,
    RulesetStatus, Scope,
};

/// Denies everything that this host's Landlock knows; in words what it does not know.
pub(super) fn restrict() -> Result<(), String> {
    match restrict_self() {
        Ok(RulesetStatus::FullyEnforced) => Ok(()),
        Ok(RulesetStatus::PartiallyEnforced) => {
            Err("this kernel's version knows files, but not all of ports, signals and sockets".to_owned())
        }
        Ok(RulesetStatus::NotEnforced) => Err("this kernel has none".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn restrict_self() -> Result<RulesetStatus, RulesetError> {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V6))?
        .handle_access(AccessNet::from_all(ABI::V6))?
        .scope(Scope::from_all(ABI::V6))?
        .create()?;
    Ok(ruleset.restrict_self()?.ruleset)
}
