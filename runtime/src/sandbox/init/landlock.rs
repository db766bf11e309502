//! The second layer: a Landlock domain at whatever ABI the kernel has. Every property it covers has another enforcer,
//! so a kernel without it still runs workers; what was really enforced is measured and reported.

use super::super::fault::Fault;
use super::super::spec::{WORK, WorkerSpec};
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, LandlockStatus, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError, Scope, path_beneath_rules,
};

/// The newest ABI whose rights this list was written for.
const NEWEST: ABI = ABI::V7;

/// Enters the domain and returns the ABI in force, 0 when the kernel has none.
pub(super) fn enter(spec: &WorkerSpec) -> Result<u32, Fault> {
    restrict(spec).map_err(|error| Fault::new("enter the Landlock domain", error.to_string()))
}

fn restrict(spec: &WorkerSpec) -> Result<u32, RulesetError> {
    let all = AccessFs::from_all(NEWEST);
    let read = AccessFs::from_read(NEWEST);
    let scratch = all & !AccessFs::IoctlDev;
    let file = AccessFs::from_file(NEWEST) & !AccessFs::IoctlDev & !AccessFs::Execute;
    let devices: BitFlags<AccessFs> =
        AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::ReadDir | AccessFs::IoctlDev | AccessFs::Truncate;
    let output = spec.output.iter().map(|output| format!("{WORK}/{}", output.path));
    let status = Ruleset::default()
        .handle_access(all)?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rules(path_beneath_rules(["/"], AccessFs::ReadDir))?
        .add_rules(path_beneath_rules(["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/proc", WORK], read))?
        .add_rules(path_beneath_rules(["/tmp", "/dev/shm"], scratch))?
        .add_rules(path_beneath_rules(["/dev"], devices))?
        .add_rules(path_beneath_rules(output, file))?
        .restrict_self()?;
    Ok(match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => effective_abi.min(NEWEST) as u32,
        LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => 0,
    })
}
