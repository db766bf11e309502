use super::*;
use proptest::prelude::*;

fn spec() -> WorkerSpec {
    let mut spec = WorkerSpec::new("test", vec!["true".into()], Stdio::Pipes, WorkerLimits::default());
    spec.inputs = vec![input("data/in.csv"), input("probe")];
    spec.output = Some(OutputSpec { path: "data/out.csv".into(), max_bytes: 4096 });
    spec
}

fn input(path: &str) -> InputSpec {
    InputSpec { path: path.into(), bytes: 3, sha256: Digest::of("abc") }
}

#[test]
fn a_plain_specification_is_accepted_and_its_bytes_read_back() {
    let spec = spec();
    spec.validate().unwrap();
    let bytes = spec.to_bytes().unwrap();
    assert_eq!(WorkerSpec::from_bytes(&bytes, Digest::of(&bytes)).unwrap(), spec);
}

#[test]
fn bytes_with_another_digest_are_refused_before_they_are_read() {
    let bytes = spec().to_bytes().unwrap();
    let announced = Digest::of("other");
    assert!(matches!(WorkerSpec::from_bytes(&bytes, announced), Err(SpecError::Digest { .. })));
    let junk = b"{\"version\":1}";
    assert!(matches!(WorkerSpec::from_bytes(junk, Digest::of(junk)), Err(SpecError::Shape(_))));
}

#[test]
fn a_path_that_is_not_plainly_below_work_is_refused() {
    for bad in ["", "/etc/passwd", "..", "../x", "a/../b", "./a", "a//b", "a/", "a\0b", "a/.", &"x".repeat(256)] {
        let mut as_input = spec();
        as_input.inputs = vec![input(bad)];
        assert!(matches!(as_input.validate(), Err(SpecError::Path { .. })), "input {bad:?}");
        let mut as_output = spec();
        as_output.output = Some(OutputSpec { path: bad.into(), max_bytes: 1 });
        assert!(matches!(as_output.validate(), Err(SpecError::Path { .. })), "output {bad:?}");
    }
    for good in ["a", "a/b/c", "a b", "..a", "a..", "ä/🦀", ".hidden"] {
        let mut fine = spec();
        fine.inputs = vec![input(good)];
        assert_eq!(fine.validate(), Ok(()), "{good:?}");
    }
}

#[test]
fn two_files_never_share_a_name_and_no_file_is_a_directory_too() {
    for clash in ["data/in.csv", "data", "probe", "data/out.csv/x"] {
        let mut spec = spec();
        spec.inputs.push(input(clash));
        assert!(matches!(spec.validate(), Err(SpecError::Path { .. })), "{clash:?}");
    }
}

#[test]
fn the_working_directory_is_one_that_will_exist() {
    for good in ["/work", "/tmp", "/work/data"] {
        let spec = WorkerSpec { cwd: good.into(), ..spec() };
        assert_eq!(spec.validate(), Ok(()), "{good}");
    }
    for bad in ["", "/", "work", "/work/", "/work/..", "/work/none", "/workdata", "/tmp/x", "/etc", "/work/probe"] {
        let spec = WorkerSpec { cwd: bad.into(), ..spec() };
        assert!(matches!(spec.validate(), Err(SpecError::Path { .. })), "{bad}");
    }
}

#[test]
fn strings_the_kernel_would_cut_or_refuse_are_refused_here() {
    for argv in [vec![], vec![String::new()], vec!["a\0b".into()], vec!["a".into(), "x".repeat(ARGUMENT_BYTES + 1)]] {
        let spec = WorkerSpec { argv, ..spec() };
        assert!(matches!(spec.validate(), Err(SpecError::Argv(_))));
    }
    let many = WorkerSpec { argv: vec!["x".repeat(1000); 1100], ..spec() };
    assert!(matches!(many.validate(), Err(SpecError::Argv(_))));
    for (name, value) in [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "x\0")] {
        let spec = WorkerSpec { environment: [(name.into(), value.into())].into(), ..spec() };
        assert!(matches!(spec.validate(), Err(SpecError::Environment { .. })), "{name:?}");
    }
    for label in ["", "a b", "a/b", "ä", &"x".repeat(65)] {
        let spec = WorkerSpec { label: label.into(), ..spec() };
        assert!(matches!(spec.validate(), Err(SpecError::Label(_))), "{label:?}");
    }
}

#[test]
fn limits_have_a_range() {
    let zero = WorkerLimits { processes: 0, ..WorkerLimits::default() };
    assert_eq!(WorkerSpec { limits: zero, ..spec() }.validate(), Err(SpecError::Limit("processes")));
    let vast = WorkerLimits { tmp_bytes: u64::MAX, ..WorkerLimits::default() };
    assert_eq!(WorkerSpec { limits: vast, ..spec() }.validate(), Err(SpecError::Limit("tmp_bytes")));
    let flat = Stdio::Pty { columns: 0, rows: 24 };
    assert_eq!(WorkerSpec { stdio: flat, ..spec() }.validate(), Err(SpecError::Limit("terminal size")));
    let other = WorkerSpec { version: SPEC_VERSION + 1, ..spec() };
    assert_eq!(other.validate(), Err(SpecError::Version(SPEC_VERSION + 1)));
}

proptest! {
    /// Whatever a path is made of: when it is accepted, joining it to a directory stays below that directory.
    #[test]
    fn an_accepted_path_never_leaves_its_directory(path in "[a./\\x00 ]{0,12}|\\PC{0,24}") {
        let mut spec = spec();
        spec.inputs = vec![input(&path)];
        spec.output = None;
        spec.cwd = WORK.into();
        if spec.validate().is_ok() {
            let joined = std::path::Path::new(WORK).join(&path);
            prop_assert!(joined.starts_with(WORK) && joined.as_os_str().len() == WORK.len() + 1 + path.len());
            prop_assert!(joined.components().skip(1).all(|c| matches!(c, std::path::Component::Normal(_))));
            prop_assert_eq!(joined.components().count(), 2 + path.split('/').count());
        }
    }

    /// One flipped byte anywhere in the specification is noticed by the launcher.
    #[test]
    fn a_changed_byte_is_noticed(at in any::<prop::sample::Index>(), flip in 1u8..=255) {
        let bytes = spec().to_bytes().unwrap();
        let digest = Digest::of(&bytes);
        let mut changed = bytes.clone();
        let at = at.index(changed.len());
        changed[at] ^= flip;
        let refused = matches!(WorkerSpec::from_bytes(&changed, digest), Err(SpecError::Digest { .. }));
        prop_assert!(refused);
    }
}
