//! Taught gestures are found while under way, at other tempi too; nothing else is.

use anticip_memory::{Spotted, Spotter};
use anticip_motion::CanonicalPose;
use proptest::prelude::*;

use crate::following::{Movement, RATE, path};

/// The seconds of a movement that are the gesture.
const GESTURE: std::ops::Range<f64> = 2.0..3.5;
/// How much faster the movement is than in the tests of following.
const LIVELY: f64 = 3.0;

fn spotter(movements: &[Movement]) -> Spotter {
    let takes: Vec<Vec<CanonicalPose>> = movements
        .iter()
        .map(|movement| {
            let frames = (GESTURE.start * RATE) as usize..(GESTURE.end * RATE) as usize;
            frames.map(|i| movement.pose(LIVELY * i as f64 / RATE)).collect()
        })
        .collect();
    let takes: Vec<(usize, &[CanonicalPose])> = takes
        .iter()
        .enumerate()
        .map(|(i, take)| (i, take.as_slice()))
        .collect();
    Spotter::new(&takes, &vec![0.2; takes.len()], 0.3).expect("takes")
}

fn spot(spotter: &mut Spotter, movement: Movement, path: &[f64]) -> Vec<Vec<Option<Spotted>>> {
    path.iter()
        .map(|&seconds| spotter.push(&movement.pose(LIVELY * seconds)).to_vec())
        .collect()
}

/// Describes what is wrong with how one of two gestures is reported at this tempo, if anything.
fn problem(seed: u64, tempo: f64) -> Option<String> {
    let path = path(0.5, &[(tempo, 4.5 / tempo)]);
    let reported = spot(
        &mut spotter(&[Movement(seed), Movement(!seed)]),
        Movement(seed),
        &path,
    );
    let Some(entered) = reported.iter().position(|reported| reported[0].is_some()) else {
        return Some(format!("never found: {seed}"));
    };
    let share = (path[entered] - GESTURE.start) / (GESTURE.end - GESTURE.start);
    let mut last = 0.0;
    let mut fits = (0.1..0.8).contains(&share);
    for (reported, seconds) in reported.iter().zip(&path).skip(entered) {
        let Some(spotted) = reported[0] else { break };
        let error = f64::from(spotted.seconds) - (GESTURE.end - seconds) / tempo;
        // Within 0.2 s at the taught tempo; another tempo is estimated only gradually.
        fits &= error.abs() < 0.2 + 1.8 * (tempo - 1.0).abs();
        fits &= (0.0..=1.0).contains(&spotted.progress) && (0.0..=1.0).contains(&spotted.likelihood);
        last = *seconds;
    }
    fits &= (last - GESTURE.end).abs() < 0.3;
    (!fits).then(|| format!("seed {seed}, tempo {tempo}: from {share} of it to {last} s"))
}

/// A few in a thousand random movements resemble themselves elsewhere; fewer than one in a hundred may fail.
#[test]
fn a_gesture_is_found_while_it_lasts_with_its_end() {
    let problems = (1..=300_u64).map(|i| {
        let seed = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        problem(seed, 0.7 + 0.7 * i as f64 / 300.0)
    });
    let problems: Vec<String> = problems.flatten().collect();
    assert!(problems.len() < 3, "{problems:#?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_was_not_taught_is_not_found(seed in any::<u64>()) {
        let path = path(0.0, &[(1.0, 20.0)]);
        let reported = spot(&mut spotter(&[Movement(seed)]), Movement(!seed), &path);
        prop_assert!(reported.iter().all(|reported| reported[0].is_none()));
    }

    #[test]
    fn spotting_anew_is_as_the_first_time(seed in any::<u64>(), frames in 1_usize..200) {
        let mut played = spotter(&[Movement(seed)]);
        let mut fresh = played.clone();
        spot(&mut played, Movement(seed), &path(1.5, &[(1.1, frames as f64 / RATE)]));
        played.reset();
        let path = path(1.0, &[(1.2, 3.0)]);
        prop_assert_eq!(spot(&mut played, Movement(seed), &path), spot(&mut fresh, Movement(seed), &path));
    }
}

#[test]
fn a_spotter_says_what_it_cannot_take() {
    let take = Movement(1).take(2.0);
    let short = Movement(1).take(0.2);
    let long = Movement(1).take(10.1);
    let many: Vec<(usize, &[CanonicalPose])> = vec![(0, &take); 201];
    let one: &[(usize, &[CanonicalPose])] = &[(0, &take)];
    for (takes, thresholds, at, message) in [
        (one, &[0.1][..], 0.05, "at: expected 0.1 to 0.8"),
        (one, &[f64::NAN], 0.3, "thresholds: expected"),
        (one, &[0.1, 0.1], 0.3, "some of each of 2 gestures"),
        (&[(0, &short[..])], &[0.1], 0.3, "15 to 500 frames, got 10"),
        (&[(0, &long[..])], &[0.1], 0.3, "15 to 500 frames, got 505"),
        (&many, &[0.1], 0.3, "at most 200"),
        (&[], &[], 0.3, "some of each of 0 gestures"),
    ] {
        let error = Spotter::new(takes, thresholds, at)
            .expect_err(message)
            .to_string();
        assert!(error.contains(message), "{error}");
    }
}
