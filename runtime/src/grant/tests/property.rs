//! Whatever a path is made of, it reads and creates inside the project or not at all.

use super::*;
use proptest::prelude::*;
use std::os::unix::fs::symlink;

/// Components that mean something to some layer, and arbitrary ones.
fn component() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec![
            "..", ".", "", "data", "out", "input.csv", "away", "near", "loop", "secret.txt", "outside", "project",
            "tools", ".git", "Data", "...", "..\u{200b}", "%2e%2e", "\u{ff0e}\u{ff0e}", "~", "$HOME", "*", "\\..",
            "..\\..", "proc", "self", "fd", "-", " ", "a\0b", "..;", "\u{2024}\u{2024}",
        ]).prop_map(str::to_owned),
        2 => any::<String>(),
        1 => "[a-z./]{0,12}",
    ]
}

fn path() -> impl Strategy<Value = String> {
    (prop::collection::vec(component(), 0..6), any::<bool>())
        .prop_map(|(parts, absolute)| format!("{}{}", if absolute { "/" } else { "" }, parts.join("/")))
}

thread_local! {
    static GROUND: Ground = {
        let ground = Ground::new();
        symlink(ground.outside(""), ground.at("away")).unwrap();
        symlink("data", ground.at("near")).unwrap();
        symlink("loop", ground.at("loop")).unwrap();
        symlink(ground.outside("secret.txt"), ground.at("data/secret.txt")).unwrap();
        ground
    };
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_path_escapes(path in path()) {
        GROUND.with(|ground| {
            if let Ok(prepared) = ground.read(&[&path]) {
                let read = contents(prepared.input_fds().unwrap().remove(0));
                prop_assert_eq!(&read, "a,b\n1,2\n");
                prop_assert_eq!(&path, "data/input.csv");
            }
            if let Ok(prepared) = ground.create(&path) {
                let file = prepared.stage(staged(b"x")).unwrap().publish().unwrap();
                let real = Path::new(&file.host_path).canonicalize().unwrap();
                prop_assert_eq!(real.to_str(), Some(file.host_path.as_str()));
                prop_assert!(real.starts_with(ground.root.path()));
                prop_assert!(!real.strip_prefix(ground.root.path()).unwrap().starts_with("tools"));
                fs::remove_file(real).unwrap();
            }
            let outside: Vec<_> = fs::read_dir(ground.outside("")).unwrap().collect();
            prop_assert_eq!(outside.len(), 1);
            prop_assert_eq!(fs::read(ground.outside("secret.txt")).unwrap(), b"secret\n");
            Ok(())
        })?;
    }
}

#[test]
fn the_property_can_fail() {
    // The control: with plain path joining, the same strings do leave the project.
    let ground = Ground::new();
    symlink(ground.outside(""), ground.at("away")).unwrap();
    for path in ["../outside/secret.txt", "away/secret.txt", "data/../../outside/secret.txt"] {
        assert_eq!(fs::read(ground.at(path)).unwrap(), b"secret\n");
        assert!(ground.read(&[path]).is_err());
    }
}
