//! The fuzz targets' invariants on stable Rust: over the committed seeds, damaged and spliced into each other.

use std::path::Path;
use std::thread;

use crate::common::{Random, mutations};
use crate::sent::{self, TARGETS, Target};

const ROUNDS: usize = 10_000;

/// Runs the target on the seeds, on damaged copies of them, and on splices of two.
fn run(target: Target, seeds: &[Vec<u8>]) {
    let target = |bytes: &[u8]| {
        target(bytes);
        let _ = anticip_wire::recognise(bytes);
    };
    for seed in seeds {
        target(seed);
        mutations(seed, ROUNDS).for_each(|bytes| target(&bytes));
    }
    let mut random = Random(7);
    for _ in 0..ROUNDS {
        let (a, b) = (
            &seeds[random.below(seeds.len())],
            &seeds[random.below(seeds.len())],
        );
        let (cut, from) = (random.below(a.len()), random.below(b.len()));
        target(&[&a[..cut], &b[from..]].concat());
    }
}

/// The sorted names in a folder, without suffixes.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let stem = |path: std::path::PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let mut names_found: Vec<String> = entries.map(|entry| stem(entry.unwrap().path())).collect();
    names_found.sort();
    names_found
}

#[test]
fn invariants_hold_for_every_target() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    assert_eq!(names(&home.join("seeds")), TARGETS.map(|(name, _)| name));
    thread::scope(|scope| {
        for (name, target) in TARGETS {
            let files = std::fs::read_dir(home.join("seeds").join(name)).unwrap();
            let mut seeds: Vec<_> = files
                .map(|file| std::fs::read(file.unwrap().path()).unwrap())
                .collect();
            seeds.sort();
            assert!(seeds.len() > 1, "{name}");
            thread::Builder::new()
                .name(name.to_owned())
                .spawn_scoped(scope, move || run(target, &seeds))
                .unwrap();
        }
    });
}

#[test]
fn invariants_hold_for_encoded_random_values() {
    let mut random = Random(3);
    for _ in 0..2 * ROUNDS {
        let length = random.below(1200);
        let bytes: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
        let _ = sent::run(&bytes);
    }
}
