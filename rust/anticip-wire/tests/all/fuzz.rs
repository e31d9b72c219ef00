//! The fuzz targets' invariants on stable: over damaged seeds and over seeds spliced into each other.

use std::path::Path;

use crate::common::{Random, mutations};
use crate::{invariants, sent};
use anticip_wire::mocopi::{self, BONE_PARENTS, Sender};
use anticip_wire::{Joint, PoseUpdate, SkeletonUpdate, native, recording, rokoko, vmc, xsens};

const ROUNDS: usize = 10_000;

fn pose(joints: u16) -> PoseUpdate {
    let joints = (0..joints)
        .map(|id| Joint {
            id,
            rotation: [0.8, 0.6, 0.0, 0.0],
            position: [0.1, 0.2, f32::from(id)],
            fresh: true,
        })
        .collect();
    PoseUpdate {
        seq: Some(3),
        time: Some(0.5),
        joints,
        ..PoseUpdate::default()
    }
}

fn skeleton() -> SkeletonUpdate {
    SkeletonUpdate {
        names: (0..27).map(|id| format!("joint {id}")).collect(),
        parents: BONE_PARENTS.to_vec(),
        offsets: vec![[0.0, 0.1, 0.0]; 27],
        rest: vec![[1.0, 0.0, 0.0, 0.0]; 27],
        rate: Some(50.0),
    }
}

fn written(write: impl FnOnce(&mut Vec<u8>) -> Result<(), anticip_wire::WireError>) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out).unwrap();
    out
}

/// The seeds themselves, damaged, and with a piece of one laid over another.
fn run(target: fn(&[u8]), seeds: &[Vec<u8>]) {
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

#[test]
fn mocopi_targets_hold() {
    let small = SkeletonUpdate {
        names: Vec::new(),
        ..skeleton()
    };
    run(
        invariants::mocopi,
        &[
            written(|out| mocopi::encode_frame(&Sender::default(), &pose(27), 0, Some(1.7e9), out)),
            written(|out| mocopi::encode_frame(&Sender::default(), &pose(2), 0, None, out)),
            written(|out| mocopi::encode_skeleton(&Sender::default(), &small, out)),
        ],
    );
}

#[test]
fn vmc_targets_hold() {
    let nested = written(|out| {
        let inner = written(|out| vmc::encode_frame(&pose(3), out));
        out.extend_from_slice(b"#bundle\0\0\0\0\0\0\0\0\x01");
        out.extend_from_slice(&(inner.len() as u32).to_be_bytes());
        out.extend_from_slice(&inner);
        Ok(())
    });
    run(
        invariants::vmc,
        &[
            written(|out| vmc::encode_frame(&pose(55), out)),
            written(|out| vmc::encode_bones(&pose(4), out)),
            nested,
            b"/VMC/Ext/T\0\0,f\0\0\x3f\x80\0\0".to_vec(),
        ],
    );
}

#[test]
fn xsens_targets_hold() {
    let whole = written(|out| xsens::encode_frame(&pose(23), out));
    let mut half = whole.clone();
    half[10] = 0;
    run(invariants::xsens, &[whole, half]);
}

#[test]
fn rokoko_targets_hold() {
    let plain = written(|out| rokoko::encode_frame(&pose(21), 60.0, out));
    // By python-lz4 4.4, `lz4.frame.compress`.
    let packed = include_bytes!("../data/rokoko.lz4").to_vec();
    run(invariants::rokoko, &[plain, packed]);
}

#[test]
fn axis_targets_hold() {
    let binary = include_bytes!("../../fuzz/seeds/axis/binary").to_vec();
    let text = include_bytes!("../../fuzz/seeds/axis/text").to_vec();
    run(invariants::axis, &[binary, text]);
}

#[test]
fn natnet_targets_hold() {
    let seeds = [
        &include_bytes!("../../fuzz/seeds/natnet/definitions-41")[..],
        include_bytes!("../../fuzz/seeds/natnet/frame-41"),
        include_bytes!("../../fuzz/seeds/natnet/frame-31"),
    ];
    run(invariants::natnet, &seeds.map(<[u8]>::to_vec));
}

#[test]
fn vrchat_targets_hold() {
    let seeds = [
        &include_bytes!("../../fuzz/seeds/vrchat/bundle")[..],
        include_bytes!("../../fuzz/seeds/vrchat/rotation"),
    ];
    run(invariants::vrchat, &seeds.map(<[u8]>::to_vec));
}

#[test]
fn recognising_holds() {
    run(
        invariants::recognise,
        &[
            written(|out| xsens::encode_frame(&pose(23), out)),
            written(|out| vmc::encode_frame(&pose(3), out)),
            written(|out| mocopi::encode_frame(&Sender::default(), &pose(2), 0, None, out)),
            written(|out| native::encode_skeleton(&skeleton(), out)),
        ],
    );
}

#[test]
fn native_targets_hold() {
    run(
        invariants::native,
        &[
            written(|out| native::encode_frame(3, 0.5, &[[0.8, 0.6, 0.0, 0.0]; 22], Some([0.0; 3]), out)),
            written(|out| native::encode_skeleton(&skeleton(), out)),
        ],
    );
}

#[test]
fn recording_targets_hold() {
    let whole = written(|out| {
        out.extend_from_slice(&recording::header());
        (1..20usize).try_for_each(|length| recording::push(&vec![length as u8; length], out))
    });
    let bare = written(|out| (1..5usize).try_for_each(|length| recording::push(&vec![9; length], out)));
    run(invariants::recording, &[whole, bare]);
}

/// What a fuzzer calls.
type Target = fn(&[u8]);

const TARGETS: [(&str, Target); 11] = [
    ("axis", invariants::axis),
    ("mocopi", invariants::mocopi),
    ("native", invariants::native),
    ("natnet", invariants::natnet),
    ("recognise", invariants::recognise),
    ("recording", invariants::recording),
    ("rokoko", invariants::rokoko),
    ("sent", |data| {
        let _ = sent::run(data);
    }),
    ("vmc", invariants::vmc),
    ("vrchat", invariants::vrchat),
    ("xsens", invariants::xsens),
];

/// The names of what lies in a folder, without endings, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let stem = |path: std::path::PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let mut found: Vec<String> = entries.map(|entry| stem(entry.unwrap().path())).collect();
    found.sort();
    found
}

#[test]
fn every_committed_seed_holds() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    assert_eq!(names(&home.join("seeds")), TARGETS.map(|(name, _)| name));
    assert_eq!(names(&home.join("fuzz_targets")), TARGETS.map(|(name, _)| name));
    for (name, target) in TARGETS {
        let seeds = std::fs::read_dir(home.join("seeds").join(name)).unwrap();
        let count = seeds
            .map(|seed| target(&std::fs::read(seed.unwrap().path()).unwrap()))
            .count();
        assert!(count > 1, "{name}");
    }
}

#[test]
fn what_is_sent_with_any_numbers_holds() {
    let mut random = Random(3);
    for _ in 0..ROUNDS / 10 {
        let length = random.below(2000);
        let bytes: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
        let _ = sent::run(&bytes);
    }
}
