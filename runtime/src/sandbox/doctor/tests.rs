use super::*;

fn failed(stage: Stage, step: &str, errno: i32) -> Result<Enforcement, Failure> {
    Err(Failure { stage, step: step.into(), errno, detail: String::new() })
}

fn first_missing(trial: &Result<Enforcement, Failure>, machine: &Machine) -> Check {
    checks(trial, machine).into_iter().find(|check| check.required && !check.ok).unwrap()
}

#[test]
fn a_trial_that_worked_leaves_nothing_required_open() {
    let worked = Ok(Enforcement { landlock_abi: 2, ..Enforcement::default() });
    let checks = checks(&worked, &Machine::default());
    assert!(checks.iter().all(|check| check.ok || !check.required), "{checks:?}");
    assert!(checks.iter().any(|check| check.what.contains("ABI 2")));
}

#[test]
fn a_kernel_without_landlock_is_no_reason_to_refuse() {
    let worked = Ok(Enforcement::default());
    let checks = checks(&worked, &Machine::default());
    let landlock = checks.iter().find(|check| check.name == "Landlock").unwrap();
    assert!(!landlock.ok && !landlock.required);
}

#[test]
fn what_stands_behind_a_refusal_is_named_with_its_command() {
    let unshare = failed(Stage::Launcher, "unshare namespaces", libc::EPERM);
    let cases = [
        (Machine { userns_clone: Some(0), ..Machine::default() }, "kernel.unprivileged_userns_clone=1"),
        (Machine { max_user_namespaces: Some(0), ..Machine::default() }, "user.max_user_namespaces="),
        (Machine { container: true, ..Machine::default() }, "systempaths=unconfined"),
        (
            Machine { apparmor_restricts: Some(1), executable: "/opt/x/stockade".into(), ..Machine::default() },
            "'/opt/x/stockade' | sudo tee /etc/apparmor.d/stockade && sudo apparmor_parser -r",
        ),
    ];
    for (machine, command) in cases {
        let check = first_missing(&unshare, &machine);
        assert_eq!(check.name, "user namespaces");
        assert!(check.cure.contains(command) && !check.cause.is_empty(), "{check}");
        assert!(check.what.contains("Operation not permitted"), "{check}");
    }
    // With the switches as they should be, none of these commands is advised.
    let open = Machine { userns_clone: Some(1), max_user_namespaces: Some(9), ..Machine::default() };
    assert_eq!(first_missing(&unshare, &open).cure, "");
}

#[test]
fn a_failed_step_is_reported_under_its_need_and_later_ones_as_not_tried() {
    for (stage, step, name) in [
        (Stage::Launcher, "write uid_map", "user namespaces"),
        (Stage::Init, "mount the new root", "mounts"),
        (Stage::Init, "mount /proc", "own /proc"),
        (Stage::Init, "mount /dev/pts", "own terminals"),
        (Stage::Worker, "seccomp: denied calls", "seccomp"),
    ] {
        let trial = failed(stage, step, libc::EPERM);
        let checks = checks(&trial, &Machine::default());
        let at = checks.iter().position(|check| check.required && !check.ok).unwrap();
        assert_eq!(checks[at].name, name);
        assert!(checks[..at].iter().all(|check| check.ok));
        assert!(checks[at + 1..NEEDS.len()].iter().all(|check| !check.ok && check.what.contains("not tried")));
    }
}

#[test]
fn the_shipped_apparmor_profile_grants_what_the_command_grants() {
    let shipped = include_str!("../../../../docs/apparmor/stockade");
    for line in ["abi <abi/4.0>,", "profile stockade ", "flags=(unconfined)", "  userns,"] {
        assert!(shipped.contains(line), "{line}");
        let command = apparmor(Path::new("/usr/bin/stockade"));
        assert!(command.contains(line.trim_start()), "{command}");
    }
}
