//! Runs every target over its seeds and over damaged copies of them: the same copies every time, so that a failure
//! comes back. `STOCKADE_FUZZ_ROUNDS=100` makes a hundred times as many. A failing input is kept and named; put it
//! into the corpus of its target once its cause is gone.

#![allow(clippy::unwrap_used, clippy::panic, reason = "this is a test")]

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use stockade_fuzz::{TARGETS, Target};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn collect(place: &Path, found: &mut Vec<(PathBuf, Vec<u8>)>) {
    if place.is_dir() {
        let mut inside: Vec<PathBuf> = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path()).collect();
        inside.sort();
        inside.iter().for_each(|path| collect(path, found));
    } else {
        found.push((place.to_owned(), fs::read(place).unwrap()));
    }
}

fn seeds(target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name), &mut found);
    target.seeds.iter().for_each(|place| collect(&repository().join(place), &mut found));
    found
}

/// A small generator; its numbers are always the same.
struct Chance(u64);

impl Chance {
    fn of(name: &str, seed: usize, round: u32) -> Self {
        let start = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
        Self(start ^ (seed as u64) << 32 ^ u64::from(round).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % bound.max(1)
    }
}

/// What breaks readers.
const HOSTILE: &[&[u8]] = &[
    b"\0",
    b"\n",
    b"\r\n",
    b"\x1b[",
    b"\x1b]52;c;",
    b"\x1bP",
    b"\x9b",
    b"\x1b[999999999;999999999H",
    b"\xff\x02\x01",
    "\u{202e}".as_bytes(),
    "\u{feff}".as_bytes(),
    "e\u{301}\u{301}\u{301}".as_bytes(),
    "\u{1f468}\u{200d}\u{1f469}".as_bytes(),
    b"\xc0\x9b",
    b"\xed\xa0\x80",
    b"{",
    b"}",
    b"[[[[[[[[",
    b"\"",
    b"\\u0000",
    b"'''",
    b"\"\"\"",
    b"-0",
    b"1e999",
    b"18446744073709551616",
    b"9007199254740993",
    b"null",
    b"\xe2\x80\x94 ",
    b"//",
    b"/*",
    b"permit(principal,action,resource);",
    b"#",
    b"../../",
];

fn damage(bytes: &[u8], other: &[u8], chance: &mut Chance) -> Vec<u8> {
    let mut damaged = bytes.to_vec();
    for _ in 0..=chance.below(4) {
        let at = chance.below(damaged.len() + 1);
        let end = (at + 1 + chance.below(24)).min(damaged.len());
        match chance.below(7) {
            0 if at < damaged.len() => damaged[at] ^= 1 << chance.below(8),
            1 => drop(damaged.drain(at..end)),
            2 => {
                let again = damaged[at..end].repeat(1 + chance.below(40));
                drop(damaged.splice(end..end, again));
            }
            3 => drop(damaged.splice(at..end, HOSTILE[chance.below(HOSTILE.len())].iter().copied())),
            4 => drop(damaged.splice(at..at, HOSTILE[chance.below(HOSTILE.len())].iter().copied())),
            5 => {
                let from = chance.below(other.len() + 1);
                let to = (from + chance.below(80)).min(other.len());
                drop(damaged.splice(at..at, other[from..to].iter().copied()));
            }
            _ => damaged.truncate(at),
        }
    }
    damaged
}

fn run(target: &Target, what: &str, bytes: &[u8]) {
    if catch_unwind(|| (target.run)(bytes)).is_ok() {
        return;
    }
    let kept = repository().join("target/fuzz");
    fs::create_dir_all(&kept).unwrap();
    let kept = kept.join(format!("{}-{}", target.name, bytes.len()));
    fs::write(&kept, bytes).unwrap();
    panic!("{} fails on {what}; the input is kept as {}", target.name, kept.display());
}

fn replay(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let times: u32 = std::env::var("STOCKADE_FUZZ_ROUNDS").map_or(1, |rounds| rounds.parse().unwrap());
    let seeds = seeds(target);
    assert!(!seeds.is_empty(), "{name} has no seeds");
    run(target, "nothing", &[]);
    for (number, (path, bytes)) in seeds.iter().enumerate() {
        run(target, &path.display().to_string(), bytes);
        for round in 0..target.rounds * times {
            let mut chance = Chance::of(name, number, round);
            let other = &seeds[chance.below(seeds.len())].1;
            let damaged = damage(bytes, other, &mut chance);
            run(target, &format!("{} damaged, round {round}", path.display()), &damaged);
        }
    }
}

macro_rules! replayed {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            replay(stringify!($name));
        })*

        #[test]
        fn every_target_is_replayed_and_has_its_program() {
            let replayed = [$(stringify!($name)),*];
            let targets: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(targets, replayed);
            for name in targets {
                let program = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("libfuzzer/fuzz_targets/{name}.rs"));
                assert!(fs::read_to_string(program).unwrap().contains(&format!("\"{name}\"")), "{name}");
            }
        }
    };
}

replayed! { manifest policy configuration journal checkpoint event redactor text line pane mcp }

#[test]
fn damage_is_the_same_every_time_and_damages() {
    let once = damage(b"some bytes that are damaged", b"others", &mut Chance::of("x", 1, 2));
    assert_eq!(once, damage(b"some bytes that are damaged", b"others", &mut Chance::of("x", 1, 2)));
    let all: Vec<Vec<u8>> = (0..50).map(|round| damage(b"bytes", b"others", &mut Chance::of("x", 1, round))).collect();
    assert!(all.iter().filter(|bytes| bytes.as_slice() != b"bytes").count() > 40);
}
