//! Kernels and file systems that lack something, made by a filter on one thread that answers for them.

use super::*;
use rustix::io::Errno;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// What to take away.
#[derive(Clone, Copy)]
enum Lack {
    Call(libc::c_long),
    /// `openat` with `O_TMPFILE`, and no other.
    NamelessFiles,
}

/// Runs on a thread of its own for which the kernel lacks something and says so with `errno`.
fn without<T: Send>(lacks: &[(Lack, Errno)], body: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                for (lack, errno) in lacks {
                    take_away(*lack, *errno);
                }
                body()
            })
            .join()
            .unwrap()
    })
}

fn take_away(lack: Lack, errno: Errno) {
    let (call, rules) = match lack {
        Lack::Call(call) => (call, vec![]),
        Lack::NamelessFiles => {
            let flag = u64::from(libc::O_TMPFILE.cast_unsigned());
            let masked = SeccompCmpOp::MaskedEq(flag);
            let condition = SeccompCondition::new(2, SeccompCmpArgLen::Dword, masked, flag).unwrap();
            (libc::SYS_openat, vec![SeccompRule::new(vec![condition]).unwrap()])
        }
    };
    let answer = SeccompAction::Errno(errno.raw_os_error().cast_unsigned());
    let architecture = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new([(call, rules)].into(), SeccompAction::Allow, answer, architecture).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

const NO_NAMELESS: (Lack, Errno) = (Lack::NamelessFiles, Errno::OPNOTSUPP);
const NO_RENAME: (Lack, Errno) = (Lack::Call(libc::SYS_renameat2), Errno::INVAL);

#[test]
fn a_kernel_without_the_means_is_refused() {
    let ground = Ground::new();
    let open = || ProjectRoot::open(&ground.at(""), &[]).map(|_| ());
    for errno in [Errno::NOSYS, Errno::PERM] {
        let error = without(&[(Lack::Call(libc::SYS_openat2), errno)], open).unwrap_err();
        assert_eq!(error, GrantError::Kernel { what: "openat2", errno });
        assert!(without(&[(Lack::Call(libc::SYS_openat2), errno)], || ground.read(&["data/input.csv"])).is_err());
    }
    let read = || ground.read(&["data/input.csv"]).map(|_| ());
    let error = without(&[(Lack::Call(libc::SYS_memfd_create), Errno::NOSYS)], read).unwrap_err();
    assert_eq!(error, GrantError::Kernel { what: "sealed memory files", errno: Errno::NOSYS });
    let error = without(&[(Lack::Call(libc::SYS_fcntl), Errno::INVAL)], read).unwrap_err();
    assert_eq!(error, GrantError::Kernel { what: "sealed memory files", errno: Errno::INVAL });
    without(&[], open).unwrap();
    without(&[], read).unwrap();
}

#[test]
fn without_statx_identities_still_hold() {
    let ground = Ground::new();
    without(&[(Lack::Call(libc::SYS_statx), Errno::NOSYS)], || {
        let root = Arc::new(ProjectRoot::open(&ground.base.path().join("project"), &[]).unwrap());
        let request = GrantRequest { read: vec![], create: vec!["out/a".into()], max_file_bytes: 16 };
        let prepared = Grants::prepare(&root, &request).unwrap();
        prepared.recheck().unwrap();
        let _ = prepared.stage(staged(b"x")).unwrap().publish().unwrap();
    });
}

#[test]
fn a_file_system_with_neither_method_is_refused_at_preparation() {
    let ground = Ground::new();
    let create = || ground.create("out/report.csv").map(|_| ());
    let error = without(&[NO_NAMELESS, NO_RENAME], create).unwrap_err();
    assert_eq!(error, GrantError::FileSystem { path: "out/report.csv".into(), errno: Errno::INVAL });
    assert_eq!(ground.strays(), [""; 0], "the trial left nothing");
    let ask = || ground.read(&["data/input.csv"]).map(|_| ());
    without(&[NO_NAMELESS, NO_RENAME], ask).expect("reading needs neither");
    without(&[NO_RENAME], create).unwrap();
    without(&[NO_NAMELESS], create).unwrap();
    assert_eq!(ground.strays(), [""; 0]);
}

#[test]
fn a_nameless_file_that_cannot_be_linked_is_not_relied_on() {
    let ground = Ground::new();
    without(&[(Lack::Call(libc::SYS_linkat), Errno::PERM)], || {
        let candidate = ground.create("out/report.csv").unwrap().stage(staged(b"x")).unwrap();
        assert!(candidate.intent().temporary.is_some());
        candidate.publish().unwrap();
    });
    assert_eq!(ground.strays(), ["report.csv"]);
}

#[test]
fn renaming_publishes_as_well_and_leaves_as_little() {
    let ground = Ground::new();
    without(&[NO_NAMELESS], || {
        let prepared = ground.create("out/report.csv").unwrap();
        let candidate = prepared.stage(staged(b"total\n")).unwrap();
        let intent = candidate.intent();
        let temporary = intent.temporary.clone().unwrap();
        assert_eq!(ground.strays(), [temporary.as_str()]);
        prepared.recheck().unwrap();
        drop(candidate);
        assert_eq!(ground.strays(), [""; 0], "a dropped candidate is gone");

        let error = prepared.stage(staged(b"")).unwrap_err();
        assert_eq!(inner(error), GrantError::Empty { path: "out/report.csv".into() });
        assert_eq!(ground.strays(), [""; 0]);

        let candidate = prepared.stage(staged(b"total\n")).unwrap();
        fs::write(ground.at("out/report.csv"), "mine").unwrap();
        assert!(matches!(inner(candidate.publish().unwrap_err()), GrantError::Exists { .. }));
        assert_eq!(fs::read(ground.at("out/report.csv")).unwrap(), b"mine");
        assert_eq!(ground.strays(), ["report.csv"]);
        fs::remove_file(ground.at("out/report.csv")).unwrap();

        let candidate = prepared.stage(staged(b"total\n")).unwrap();
        let intent = candidate.intent();
        let file = candidate.publish().unwrap();
        assert_eq!(ground.strays(), ["report.csv"]);
        assert_eq!(fs::read(&file.host_path).unwrap(), b"total\n");
        assert_eq!(reconcile(&ground.root, &intent), Reconciliation::Published(file));
    });
}

#[test]
fn a_temporary_file_that_was_swapped_is_not_published() {
    let ground = Ground::new();
    without(&[NO_NAMELESS], || {
        let candidate = ground.create("out/report.csv").unwrap().stage(staged(b"agreed")).unwrap();
        let temporary = ground.at("out").join(candidate.intent().temporary.unwrap());
        fs::remove_file(&temporary).unwrap();
        fs::write(&temporary, "agreed").unwrap();
        assert!(matches!(inner(candidate.publish().unwrap_err()), GrantError::Changed { .. }));
        assert!(temporary.exists(), "what is not the broker's is not removed");
        assert!(!ground.at("out/report.csv").exists());
    });
}

#[test]
fn a_crash_leaves_a_temporary_file_that_the_next_start_removes() {
    let ground = Ground::new();
    without(&[NO_NAMELESS], || {
        let candidate = ground.create("out/report.csv").unwrap().stage(staged(b"x")).unwrap();
        let intent = candidate.intent();
        let temporary = ground.at("out").join(intent.temporary.clone().unwrap());
        assert!(temporary.exists());
        // As a killed process leaves it: reconciliation removes it because the intent names it.
        std::mem::forget(candidate);
        assert_eq!(reconcile(&ground.root, &intent), Reconciliation::Discarded);
        assert_eq!(ground.strays(), [""; 0]);
        // Another file under that name is not the broker's to remove.
        fs::write(&temporary, "x").unwrap();
        assert_eq!(reconcile(&ground.root, &intent), Reconciliation::Discarded);
        assert!(temporary.exists());

        // No intent names this one: the next grant for the directory removes it, but not one that is still in use.
        let live = ground.create("out/report.csv").unwrap().stage(staged(b"x")).unwrap();
        assert!(!temporary.exists(), "the left one is swept");
        let live_name = live.intent().temporary.unwrap();
        assert_eq!(ground.strays(), [live_name.as_str()]);
        let _other = ground.create("out/other.csv").unwrap();
        assert_eq!(ground.strays(), [live_name], "the live one is not");
        live.publish().unwrap();
        assert_eq!(ground.strays(), ["report.csv"]);
    });
}

#[test]
fn a_publication_that_cannot_be_made_durable_is_taken_back_and_called_in_doubt() {
    let ground = Ground::new();
    let no_sync = (Lack::Call(libc::SYS_fsync), Errno::IO);
    let stage = || ground.create("out/report.csv").unwrap().stage(staged(b"x")).unwrap();
    let candidate = stage();
    let error = without(&[no_sync], || candidate.publish()).unwrap_err();
    assert!(matches!(error, GrantError::InDoubt(_)), "{error}");
    assert_eq!(error.refusal().code, stockade_protocol::refusal::RefusalCode::InDoubt);
    assert_eq!(ground.strays(), [""; 0]);

    let candidate = stage();
    let error = without(&[no_sync, NO_RENAME], || candidate.publish()).unwrap_err();
    assert!(matches!(error, GrantError::InDoubt(_)), "{error}");
    assert_eq!(ground.strays(), ["report.csv"], "it could not be taken back, and the error says so");
    fs::remove_file(ground.at("out/report.csv")).unwrap();

    let prepared = ground.create("out/report.csv").unwrap();
    let error = without(&[no_sync], || prepared.stage(staged(b"x"))).unwrap_err();
    assert!(matches!(inner(error), GrantError::Io { .. }));
    let candidate = stage();
    let error = without(&[(Lack::Call(libc::SYS_linkat), Errno::XDEV)], || candidate.publish()).unwrap_err();
    assert!(matches!(inner(error), GrantError::Io { .. }));
    assert_eq!(ground.strays(), [""; 0]);
    stage().publish().unwrap();
}

#[test]
fn a_replaced_directory_is_noticed_before_anything_is_linked() {
    let ground = Ground::new();
    let candidate = ground.create("out/report.csv").unwrap().stage(staged(b"x")).unwrap();
    fs::rename(ground.at("out"), ground.at("aside")).unwrap();
    fs::create_dir(ground.at("out")).unwrap();
    let no_link = (Lack::Call(libc::SYS_linkat), Errno::XDEV);
    let error = without(&[no_link], || candidate.publish()).unwrap_err();
    assert!(matches!(inner(error), GrantError::Changed { .. }), "linking was not even tried");
}
