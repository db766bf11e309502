//! A thread that rearranges the project while the broker works: a thousand times each, and not once may anything
//! outside be read or written.

use super::*;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

const SWAPS: u32 = 1000;

/// Exchanges two entries over and over until dropped.
struct Swapper {
    stop: Arc<AtomicBool>,
    swaps: Arc<AtomicU32>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Swapper {
    fn start(one: PathBuf, other: PathBuf) -> Self {
        let (stop, swaps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let thread = {
            let (stop, swaps) = (Arc::clone(&stop), Arc::clone(&swaps));
            std::thread::spawn(move || {
                // Ends on an even number, so that everything is back in its place.
                while !stop.load(Ordering::Relaxed) || swaps.load(Ordering::Relaxed) % 2 == 1 {
                    renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
                    swaps.fetch_add(1, Ordering::Relaxed);
                    // Lets the other thread in between, wherever it stands.
                    std::thread::yield_now();
                }
            })
        };
        Self { stop, swaps, thread: Some(thread) }
    }

    fn swaps(&self) -> u32 {
        self.swaps.load(Ordering::Relaxed)
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Asks for an input again and again while two entries are exchanged: only ever the inside one is read.
fn read_during(ground: &Ground, path: &str, swapper: Swapper) {
    let (mut read, mut refused) = (0_u32, 0_u32);
    while swapper.swaps() < SWAPS || read == 0 || refused == 0 {
        match ground.read(&[path]) {
            Ok(prepared) => {
                assert_eq!(contents(prepared.input_fds().unwrap().remove(0)), "a,b\n1,2\n");
                // Whatever a later look finds, it must not be taken for agreement with another file.
                let _ = prepared.recheck();
                read += 1;
            }
            Err(error) => {
                // A rename touches the file it moves, which may be seen as well.
                assert!(matches!(error, GrantError::Escape { .. } | GrantError::Restless { .. }), "{error}");
                refused += 1;
            }
        }
        assert!(swapper.swaps() < 1_000_000, "read {read}, refused {refused}");
    }
    drop(swapper);
    ground.read(&[path]).unwrap();
}

#[test]
fn an_input_directory_swapped_for_a_link_never_leads_outside() {
    let ground = Ground::new();
    fs::write(ground.outside("input.csv"), "secret\n").unwrap();
    symlink(ground.outside(""), ground.at("link")).unwrap();
    read_during(&ground, "data/input.csv", Swapper::start(ground.at("data"), ground.at("link")));
}

#[test]
fn an_input_swapped_for_a_link_never_leads_outside() {
    let ground = Ground::new();
    symlink(ground.outside("secret.txt"), ground.at("link")).unwrap();
    read_during(&ground, "data/input.csv", Swapper::start(ground.at("data/input.csv"), ground.at("link")));
}

#[test]
fn a_deep_component_swapped_for_a_link_never_leads_outside() {
    let ground = Ground::new();
    fs::create_dir_all(ground.at("a/b/c/d")).unwrap();
    fs::create_dir_all(ground.outside("c/d")).unwrap();
    fs::write(ground.at("a/b/c/d/input.csv"), "a,b\n1,2\n").unwrap();
    fs::write(ground.outside("c/d/input.csv"), "secret\n").unwrap();
    symlink(ground.outside(""), ground.at("link")).unwrap();
    read_during(&ground, "a/b/c/d/input.csv", Swapper::start(ground.at("a/b"), ground.at("link")));
}

/// Publishes again and again while two entries are exchanged; counts what was said to be there, and what was not.
fn publish_during(ground: &Ground, swapper: Swapper) -> Vec<String> {
    let (mut there, mut refused, mut round) = (Vec::new(), 0_u32, 0_u32);
    while swapper.swaps() < SWAPS || there.is_empty() || refused == 0 {
        let name = format!("out/{round}");
        round += 1;
        let Ok(prepared) = ground.create(&name) else { continue };
        let Ok(candidate) = prepared.stage(staged(name.as_bytes())) else { panic!("the held directory takes files") };
        match candidate.publish() {
            Ok(_) | Err(GrantError::InDoubt(_)) => there.push(name),
            Err(GrantError::Unpublished(_)) => refused += 1,
            Err(other) => panic!("{other}"),
        }
        assert!(swapper.swaps() < 1_000_000, "published {}, refused {refused}", there.len());
    }
    drop(swapper);
    there.sort();
    there
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| format!("out/{}", entry.unwrap().file_name().into_string().unwrap()))
        .collect();
    names.sort();
    names
}

#[test]
fn an_output_directory_swapped_for_a_link_never_leads_outside() {
    let ground = Ground::new();
    symlink(ground.outside(""), ground.at("link")).unwrap();
    let there = publish_during(&ground, Swapper::start(ground.at("out"), ground.at("link")));
    assert_eq!(names(&ground.outside("")), ["out/secret.txt"]);
    assert_eq!(names(&ground.at("out")), there, "exactly what was reported is there");
}

#[test]
fn an_output_directory_swapped_for_another_is_never_mistaken_for_it() {
    let ground = Ground::new();
    fs::create_dir(ground.at("other")).unwrap();
    let there = publish_during(&ground, Swapper::start(ground.at("out"), ground.at("other")));
    let mut found = names(&ground.at("out"));
    found.extend(names(&ground.at("other")));
    found.sort();
    assert_eq!(found, there, "exactly what was reported is in one of the two");
}

#[test]
fn of_two_who_create_the_same_name_exactly_one_does() {
    let ground = Ground::new();
    let (mut ours, mut theirs) = (0, 0);
    for round in 0..SWAPS {
        let name = format!("out/{round}");
        let target = ground.at(&name);
        let candidate = ground.create(&name).unwrap().stage(staged(b"ours")).unwrap();
        let start = Arc::new(std::sync::Barrier::new(2));
        let rival = {
            let (start, target) = (Arc::clone(&start), target.clone());
            std::thread::spawn(move || {
                start.wait();
                // Gives each side a chance to be first.
                for _ in 0..(round % 50) * 40 {
                    std::hint::spin_loop();
                }
                fs::File::create_new(target).and_then(|mut file| file.write_all(b"theirs")).is_ok()
            })
        };
        start.wait();
        let published = candidate.publish().is_ok();
        assert_ne!(published, rival.join().unwrap(), "{name}");
        assert_eq!(fs::read(&target).unwrap(), if published { &b"ours"[..] } else { b"theirs" });
        *if published { &mut ours } else { &mut theirs } += 1;
    }
    assert_eq!(ours + theirs, SWAPS);
    assert!(theirs > 0, "the rival was never first: the race was not run");
}
