//! Tempo tracking.

use anticip_motion::canonical::JOINT_COUNT;
use anticip_motion::{CanonicalPose, Tempo, TempoTracker, motion_features};
use std::f64::consts::TAU;

/// Frames of legs that swing in opposite directions, and arms: `hz` strides a second.
fn walk(frames: usize, hz: f64, arms: f64) -> Vec<CanonicalPose> {
    let about_x = |angle: f64| [(angle / 2.0).cos() as f32, (angle / 2.0).sin() as f32, 0.0, 0.0];
    (0..frames)
        .map(|frame| {
            let turn = TAU * hz * frame as f64 / 50.0;
            let mut pose = [[1.0, 0.0, 0.0, 0.0]; JOINT_COUNT];
            pose[14] = about_x(0.5 * turn.sin());
            pose[18] = about_x(-0.5 * turn.sin());
            pose[15] = about_x(0.5 * (turn.cos() + 1.0));
            pose[19] = about_x(0.5 * (1.0 - turn.cos()));
            pose[7] = about_x(-arms * turn.sin());
            pose[11] = about_x(arms * turn.sin());
            pose
        })
        .collect()
}

fn track(poses: &[CanonicalPose]) -> Vec<Tempo> {
    let roots = vec![[0.0, 0.9, 0.0]; poses.len()];
    let rows = motion_features(poses, &roots, &[true; JOINT_COUNT], 256).unwrap();
    let mut tracker = TempoTracker::default();
    rows.iter().map(|row| tracker.push(row)).collect()
}

#[test]
fn steps_are_counted_not_strides() {
    for strides in [0.6, 0.8, 0.95, 1.2, 1.5] {
        for arms in [0.0, 0.4] {
            let found = track(&walk(400, strides, arms));
            for tempo in &found[150..] {
                let off = tempo.bpm / (120.0 * strides) - 1.0;
                assert!(off.abs() < 0.03, "{strides} {arms}: {tempo:?}");
                assert!(tempo.trust > 0.5, "{strides} {arms}: {tempo:?}");
            }
        }
    }
}

#[test]
fn the_tempo_stays_within_its_bounds() {
    for strides in [0.41, 0.413, 2.1, 2.12, 2.15] {
        for tempo in track(&walk(400, strides, 0.4)) {
            let is_known = tempo.bpm != 0.0;
            assert!(
                !is_known || (50.0..=250.0).contains(&tempo.bpm),
                "{strides}: {tempo:?}"
            );
        }
    }
}

#[test]
fn the_phase_goes_on_and_turns_once_a_beat() {
    let found = track(&walk(600, 0.9, 0.3));
    let mut beats = 0.0;
    for two in found[200..].windows(2) {
        let step = (two[1].phase - two[0].phase).rem_euclid(1.0);
        assert!(step < 0.2 && (0.0..1.0).contains(&two[1].phase), "{two:?}");
        beats += step;
    }
    let expected = 399.0 / 50.0 * 1.8;
    assert!((beats - expected).abs() < 0.2, "{beats} of {expected}");
}

#[test]
fn who_stands_or_only_moves_keeps_no_beat() {
    let mut poses = walk(300, 0.9, 0.3);
    poses.extend([poses[0]; 200]);
    let found = track(&poses);
    assert!(found[299].trust > 0.9);
    let last = found[499];
    assert_eq!(last.trust, 0.0);
    assert!((last.bpm / 108.0 - 1.0).abs() < 0.1, "the last is held: {last:?}");
    assert!(
        found
            .iter()
            .all(|t| (0.0..1.0).contains(&t.phase) && t.bpm.is_finite())
    );
}

#[test]
fn a_reset_forgets_all_but_the_beats_a_minute() {
    let poses = walk(300, 0.8, 0.3);
    let roots = vec![[0.0, 0.9, 0.0]; poses.len()];
    let rows = motion_features(&poses, &roots, &[true; JOINT_COUNT], 256).unwrap();
    let mut tracker = TempoTracker::default();
    let first: Vec<_> = rows.iter().map(|row| tracker.push(row)).collect();
    tracker.reset();
    assert_eq!(
        (tracker.tempo().trust, tracker.tempo().bpm),
        (0.0, first[299].bpm)
    );
    let again: Vec<_> = rows.iter().map(|row| tracker.push(row).trust).collect();
    assert_eq!(again[..15], [0.0; 15]);
    assert!(again[299] > 0.9);
}

#[test]
fn no_row_breaks_it() {
    let mut tracker = TempoTracker::default();
    for value in [0.0, 1.0, -1.0, 1e30, f32::MAX, f32::NAN, f32::INFINITY, 0.0] {
        for _ in 0..80 {
            let tempo = tracker.push(&[value; anticip_motion::FEATURE_COUNT]);
            assert!(
                tempo.bpm.is_finite() && (0.0..1.0).contains(&tempo.phase),
                "{value}: {tempo:?}"
            );
            assert!((0.0..=1.0).contains(&tempo.trust), "{value}: {tempo:?}");
        }
    }
    let poses = walk(300, 0.8, 0.3);
    let roots = vec![[0.0, 0.9, 0.0]; poses.len()];
    for row in motion_features(&poses, &roots, &[true; JOINT_COUNT], 256).unwrap() {
        tracker.push(&row);
    }
    assert!(tracker.tempo().trust > 0.5, "{:?}", tracker.tempo());
}
