//! The noise gate: jitter is held, movement passes.

use anticip_geometry::Quat;
use anticip_motion::canonical::JOINT_COUNT;
use anticip_motion::{NoiseGate, Pose};
use proptest::prelude::*;

const ALL: [bool; JOINT_COUNT] = [true; JOINT_COUNT];
const DEGREE: f64 = std::f64::consts::PI / 180.0;
const RATE: f64 = 50.0;
const ARM: usize = 7;

/// A pose that differs from the rest pose.
fn held() -> Pose {
    let mut pose = Pose::identity(JOINT_COUNT);
    for (j, q) in pose.rotations.iter_mut().enumerate() {
        *q = Quat::exp([0.1 * j as f64, 0.3, -0.05 * j as f64]);
    }
    pose.root = [0.1, 0.95, 0.3];
    pose
}

/// The pose with every joint rotated by its vector (radians).
fn turned(pose: &Pose, mut by: impl FnMut(usize, usize) -> f64) -> Pose {
    let mut out = pose.clone();
    for (j, q) in out.rotations.iter_mut().enumerate() {
        *q = *q * Quat::exp(std::array::from_fn(|axis| by(j, axis)));
    }
    out
}

/// Pseudo-random numbers in 0..1.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.roll()).sum::<f64>() - 6.0
    }
}

/// A still pose with jitter of `degrees` rms about each axis: white, or below 5 Hz.
fn trembling(degrees: f64, slow: bool, seed: u64, frames: usize) -> Vec<Pose> {
    const SINES: usize = 12;
    let mut dice = Dice(seed);
    let waves: Vec<[f64; 2]> = (0..JOINT_COUNT * 3 * SINES)
        .map(|_| [5.0 * dice.roll(), std::f64::consts::TAU * dice.roll()])
        .collect();
    let pose = held();
    let size = degrees * DEGREE;
    let noise = |i: usize, at: usize, dice: &mut Dice| {
        if !slow {
            return dice.normal();
        }
        let t = i as f64 / RATE;
        let sum: f64 = waves[at * SINES..(at + 1) * SINES]
            .iter()
            .map(|[f, phase]| (std::f64::consts::TAU * f * t + phase).sin())
            .sum();
        sum * (2.0 / SINES as f64).sqrt()
    };
    (0..frames)
        .map(|i| turned(&pose, |j, axis| size * noise(i, 3 * j + axis, &mut dice)))
        .collect()
}

/// An arm that swings from rest by `degrees` at 1 Hz.
fn swing(i: usize, degrees: f64) -> Pose {
    let angle = degrees * DEGREE * (1.0 - (std::f64::consts::TAU * i as f64 / RATE).cos()) / 2.0;
    turned(&held(), |j, axis| if (j, axis) == (ARM, 2) { angle } else { 0.0 })
}

#[test]
fn who_trembles_stands_still() {
    for (degrees, slow) in [(0.2, false), (1.0, false), (0.2, true), (0.5, true), (1.0, true)] {
        for seed in 0..3 {
            let mut gate = NoiseGate::new(&ALL, None);
            let mut before: Option<Pose> = None;
            let mut fastest = 0.0_f64;
            for pose in trembling(degrees, slow, seed, 3000) {
                let out = gate.push(&pose).clone();
                let turn = |last: &Pose| {
                    let pairs = last.rotations.iter().zip(&out.rotations);
                    pairs.map(|(a, b)| a.angle_to(*b)).fold(0.0, f64::max)
                };
                fastest = fastest.max(before.as_ref().map_or(0.0, turn) * RATE);
                before = Some(out);
                assert_eq!(gate.openness(), 0.0, "{degrees} {slow} {seed}");
            }
            assert!(fastest < 3.0 * DEGREE * degrees, "{degrees} {slow}: {fastest}");
            let learned = gate.noise().iter().sum::<f64>() / JOINT_COUNT as f64 / DEGREE;
            assert!(
                (0.6..1.4).contains(&(learned / degrees)),
                "{degrees} {slow}: {learned}"
            );
        }
    }
}

#[test]
fn one_joint_alone_may_tremble() {
    let mut mask = [false; JOINT_COUNT];
    mask[0] = true;
    let mut gate = NoiseGate::new(&mask, None);
    for pose in trembling(0.5, true, 4, 3000) {
        gate.push(&pose);
        assert_eq!(gate.openness(), 0.0);
    }
}

#[test]
fn movement_opens_at_once_and_passes_bit_for_bit() {
    let mut gate = NoiseGate::new(&ALL, None);
    for _ in 0..100 {
        gate.push(&held());
    }
    // Half a second there, half a second back, twice.
    for i in 0..200 {
        let pose = swing(i, 90.0);
        let out = gate.push(&pose);
        if i >= 12 {
            assert_eq!(out, &pose, "frame {i}");
        }
    }
    assert_eq!(gate.openness(), 1.0);
}

#[test]
fn a_clean_suit_lets_slow_movement_through() {
    let mut gate = NoiseGate::new(&ALL, None);
    let sway = |i: usize| {
        let angle = 2.0 * DEGREE * (std::f64::consts::TAU * 0.2 * i as f64 / RATE).sin();
        turned(&held(), |j, axis| if j < 4 && axis == 0 { angle } else { 0.0 })
    };
    for i in 0..1000 {
        let pose = sway(i);
        let out = gate.push(&pose);
        assert!(i < 400 || out == &pose, "frame {i}");
    }
}

#[test]
fn a_slow_sway_stands_out_of_the_tremble_before_it_is_as_strong() {
    // All joints by 1.2 degrees at 0.15 Hz with jitter of 0.3: the fast part of both together is smaller.
    let opens = |degrees: f64| {
        let mut gate = NoiseGate::new(&ALL, None);
        let frames = trembling(0.3, true, 7, 3000);
        let sway = |i: usize| degrees * DEGREE * (std::f64::consts::TAU * 0.15 * i as f64 / RATE).sin();
        let moving = |(i, pose): (usize, &Pose)| {
            gate.push(&turned(pose, |_, axis| if axis == 0 { sway(i) } else { 0.0 }));
            gate.openness() > 0.0
        };
        frames.iter().enumerate().map(moving).filter(|&open| open).count()
    };
    assert_eq!(opens(0.6), 0);
    assert!(opens(1.2) > 1000);
}

#[test]
fn one_arm_that_moves_slowly_stands_out_of_its_own_tremble() {
    for (degrees, speed, soonest) in [
        (0.2, 20.0, 12),
        (0.5, 20.0, 22),
        (1.0, 20.0, 38),
        (0.2, 8.0, 24),
        (0.5, 8.0, 60),
    ] {
        for (slow, seed) in [(false, 1), (true, 2), (true, 3)] {
            let mut gate = NoiseGate::new(&ALL, None);
            let opens = trembling(degrees, slow, seed, 700)
                .iter()
                .enumerate()
                .position(|(i, pose)| {
                    let angle = speed * DEGREE * i.saturating_sub(500) as f64 / RATE;
                    gate.push(&turned(
                        pose,
                        |j, axis| if (j, axis) == (ARM, 2) { angle } else { 0.0 },
                    ));
                    gate.openness() == 1.0
                });
            let opens = opens.expect("opens");
            assert!(
                (500..500 + soonest).contains(&opens),
                "{degrees} {slow} {seed}: {opens}"
            );
        }
    }
}

#[test]
fn it_shuts_again_without_a_jump() {
    let mut gate = NoiseGate::new(&ALL, None);
    let mut last = held();
    for i in 0..500 {
        let pose = if i < 100 { swing(i, 90.0) } else { held() };
        let out = gate.push(&pose).clone();
        let turn = last.rotations[ARM].angle_to(out.rotations[ARM]);
        assert!(turn < 12.0 * DEGREE, "frame {i}: {turn}");
        last = out;
    }
    assert_eq!(gate.openness(), 0.0);
    assert!(last.rotations[ARM].angle_to(held().rotations[ARM]) < 0.5 * DEGREE);
}

#[test]
fn a_slow_movement_that_goes_on_stays_active() {
    for (degrees, speed) in [(0.2, 8.0), (0.2, 20.0), (0.5, 20.0)] {
        for (slow, seed) in [(false, 1), (true, 2), (true, 3)] {
            let mut gate = NoiseGate::new(&ALL, None);
            for (i, pose) in trembling(degrees, slow, seed, 900).iter().enumerate() {
                let angle = speed * DEGREE * i.saturating_sub(500) as f64 / RATE;
                gate.push(&turned(
                    pose,
                    |j, axis| if (j, axis) == (ARM, 2) { angle } else { 0.0 },
                ));
                assert!(
                    i < 560 || gate.activity() == 1.0,
                    "{degrees} {speed} {slow} {seed}: {i}"
                );
            }
        }
    }
}

#[test]
fn who_stops_is_inactive_after_a_second_and_before_the_pose_is_held() {
    for (degrees, slow, seed) in [(0.0, false, 1), (0.2, false, 1), (0.2, true, 2), (0.5, true, 3)] {
        let mut gate = NoiseGate::new(&ALL, None);
        for (i, pose) in trembling(degrees, slow, seed, 400).iter().enumerate() {
            let angle = 30.0 * DEGREE * (std::f64::consts::TAU * i.min(210) as f64 / RATE).sin();
            gate.push(&turned(pose, |_, axis| if axis == 1 { angle } else { 0.0 }));
            match i {
                0..50 => assert_eq!(gate.activity(), gate.openness(), "{degrees} {slow}: frame {i}"),
                50..=210 => assert_eq!(gate.activity(), 1.0, "{degrees} {slow}: frame {i}"),
                275.. => assert_eq!(gate.activity(), 0.0, "{degrees} {slow}: frame {i}"),
                _ => {}
            }
            assert!(i != 275 || gate.openness() == 1.0, "{degrees} {slow}");
        }
    }
}

#[test]
fn what_is_known_of_a_bad_suit_is_believed() {
    let opens = |known: Option<&[f64; JOINT_COUNT]>| {
        let mut gate = NoiseGate::new(&ALL, known);
        trembling(2.5, true, 1, 1500).iter().any(|pose| {
            gate.push(pose);
            gate.openness() > 0.0
        })
    };
    assert!(opens(None));
    assert!(!opens(Some(&[2.5 * DEGREE; JOINT_COUNT])));
    assert!(opens(Some(&[f64::NAN; JOINT_COUNT])));
}

#[test]
fn a_new_stream_keeps_what_was_learned() {
    let mut gate = NoiseGate::new(&ALL, None);
    for _ in 0..500 {
        gate.push(&held());
    }
    let learned = gate.noise();
    gate.restart();
    assert_eq!(gate.push(&swing(20, 90.0)), &swing(20, 90.0));
    assert_eq!(gate.noise(), learned);
    assert_eq!(gate.openness(), 0.0);
}

proptest! {
    #[test]
    fn whatever_comes_unit_rotations_leave(
        steps in prop::collection::vec((any::<u64>(), 0.0..3.0_f64, any::<bool>()), 1..80),
    ) {
        let mut gate = NoiseGate::new(&ALL, None);
        for (seed, size, far) in steps {
            let mut dice = Dice(seed);
            let mut pose = turned(&held(), |_, _| size * dice.normal());
            if far {
                pose.rotations.iter_mut().for_each(|q| *q = Quat::new(-q.w, -q.x, -q.y, -q.z));
            }
            pose.root = [size, 1e4 * size, -size];
            let out = gate.push(&pose);
            prop_assert!(out.rotations.iter().all(|q| (q.norm() - 1.0).abs() < 1e-9));
            prop_assert!(out.root.iter().all(|v| v.is_finite()));
            prop_assert!((0.0..=1.0).contains(&gate.openness()));
            prop_assert!((0.0..=gate.openness()).contains(&gate.activity()));
        }
        prop_assert!(gate.noise().iter().all(|n| n.is_finite() && *n > 0.0));
    }

    #[test]
    fn still_stays_still(x in -3.0..3.0_f64, y in -3.0..3.0_f64) {
        let pose = turned(&held(), |_, axis| if axis == 0 { x } else { y });
        let mut gate = NoiseGate::new(&ALL, None);
        for _ in 0..50 {
            let out = gate.push(&pose);
            for (a, b) in out.rotations.iter().zip(&pose.rotations) {
                prop_assert!(a.angle_to(*b) < 1e-6);
            }
        }
        prop_assert_eq!(gate.openness(), 0.0);
    }
}
