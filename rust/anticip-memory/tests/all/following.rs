//! Followed is what was rehearsed: played again, faster or slower, stopped, skipped, repeated; and nothing else.

use anticip_memory::{Cue, Cues, Follower, Place};
use anticip_motion::CanonicalPose;
use anticip_motion::canonical::JOINT_COUNT;
use proptest::prelude::*;

pub(super) const RATE: f64 = 50.0;

/// A movement that never repeats: every joint swings about an axis of its own in three unrelated rhythms.
#[derive(Clone, Copy)]
pub(super) struct Movement(pub(super) u64);

impl Movement {
    /// Even numbers between 0 and 1.
    fn even(self, index: usize) -> f64 {
        let mut x = self
            .0
            .wrapping_add(index as u64 + 1)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15);
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((x ^ (x >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(super) fn pose(self, seconds: f64) -> CanonicalPose {
        std::array::from_fn(|joint| {
            let number = |i: usize| self.even(10 * joint + i);
            let swing = |i: usize| {
                let rhythm = [0.17, 0.41, 0.83][i] * (0.7 + 0.6 * number(i));
                (std::f64::consts::TAU * (rhythm * seconds + number(3 + i))).sin() / (1.0 + i as f64)
            };
            let half = 0.25 * (0..3).map(swing).sum::<f64>();
            let (around, up) = (std::f64::consts::TAU * number(6), number(7) - 0.5);
            let axis = [around.cos(), up, around.sin()];
            let length = axis.iter().map(|v| v * v).sum::<f64>().sqrt();
            let [x, y, z] = axis.map(|v| (half.sin() * v / length) as f32);
            [half.cos() as f32, x, y, z]
        })
    }

    pub(super) fn take(self, seconds: f64) -> Vec<CanonicalPose> {
        (0..(seconds * RATE) as usize)
            .map(|i| self.pose(i as f64 / RATE))
            .collect()
    }
}

fn follower(takes: &[Vec<CanonicalPose>]) -> Follower {
    Follower::new(takes).expect("takes")
}

fn play(follower: &mut Follower, movement: Movement, path: &[f64]) -> Vec<Option<Place>> {
    path.iter()
        .map(|&seconds| follower.push(&movement.pose(seconds)))
        .collect()
}

/// The movement done again: every joint up to 2 degrees off.
fn again(movement: Movement, other: u64, seconds: f64) -> Vec<CanonicalPose> {
    let mut take = movement.take(seconds);
    for (pose, aside) in take.iter_mut().zip(Movement(other).take(seconds)) {
        for (q, by) in pose.iter_mut().zip(aside) {
            (1..4).for_each(|i| q[i] += 0.06 * by[i]);
            let norm = q.iter().map(|v| v * v).sum::<f32>().sqrt();
            q.iter_mut().for_each(|v| *v /= norm);
        }
    }
    take
}

/// Where the performer is in the take, frame by frame, who plays it at these tempi: (tempo, seconds of playing).
pub(super) fn path(from: f64, parts: &[(f64, f64)]) -> Vec<f64> {
    let mut place = from;
    let mut out = Vec::new();
    for (tempo, seconds) in parts {
        for _ in 0..(seconds * RATE) as usize {
            out.push(place);
            place += tempo / RATE;
        }
    }
    out
}

fn cue(take: usize, seconds: f64, ahead: f64) -> Cue {
    Cue { take, seconds, ahead }
}

fn found(place: Option<Place>, take: usize, seconds: f64, within: f64) -> bool {
    place.is_some_and(|p| p.take == take && (p.seconds - seconds).abs() <= within && p.trust > 0.5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn the_rehearsal_itself_is_at_its_own_time(seed in any::<u64>(), from in 0.0_f64..6.0) {
        let mut follower = follower(&[Movement(!seed).take(8.0), Movement(seed).take(16.0)]);
        let path = path(from, &[(1.0, 9.0)]);
        for (i, place) in play(&mut follower, Movement(seed), &path).into_iter().enumerate().skip(125) {
            prop_assert!(found(place, 1, path[i], 0.04), "{} at {}: {place:?}", path[i], i);
            prop_assert!((place.expect("found").tempo - 1.0).abs() < 0.2, "{place:?}");
        }
    }

    #[test]
    fn another_tempo_is_followed(seed in any::<u64>(), tempo in 0.7_f64..1.4) {
        let mut follower = follower(&[Movement(seed).take(16.0)]);
        let path = path(0.0, &[(1.0, 3.0), (tempo, 7.0)]);
        for (i, place) in play(&mut follower, Movement(seed), &path).into_iter().enumerate().skip(250) {
            prop_assert!(found(place, 0, path[i], 0.06), "{} at {}: {place:?}", path[i], i);
            prop_assert!((place.expect("found").tempo - tempo).abs() < 0.25, "{tempo}: {place:?}");
        }
    }

    #[test]
    fn stops_skips_and_repeats_are_found(seed in any::<u64>(), length in 3.0_f64..6.0, back in any::<bool>()) {
        let movement = Movement(seed);
        let mut follower = follower(&[movement.take(24.0)]);
        let mut path = path(2.0, &[(1.0, 6.0), (0.0, 2.0)]);
        let stopped = path.len() - 1;
        let to = path[stopped] + if back { -length } else { length };
        path.extend(self::path(to, &[(1.0, 4.0)]));
        let places = play(&mut follower, movement, &path);
        prop_assert!(found(places[stopped], 0, path[stopped], 0.1), "{:?}", places[stopped]);
        prop_assert!(places[stopped].expect("found").tempo < 0.2, "{:?}", places[stopped]);
        for i in stopped + 125..path.len() {
            prop_assert!(found(places[i], 0, path[i], 0.06), "{} at {i}: {:?}", path[i], places[i]);
        }
    }

    #[test]
    fn who_goes_on_after_a_stop_is_followed_at_once(seed in any::<u64>(), stop in 1.0_f64..8.0) {
        let movement = Movement(seed);
        let mut follower = follower(&[movement.take(16.0)]);
        let path = path(2.0, &[(1.0, 5.0), (0.0, stop), (1.0, 3.0)]);
        let resumed = path.len() - 150;
        let places = play(&mut follower, movement, &path);
        for i in resumed + 10..path.len() {
            prop_assert!(found(places[i], 0, path[i], 0.08), "{} at {i}: {:?}", path[i], places[i]);
        }
    }

    /// Neither at the top nor anywhere else, and as soon as after a stop.
    #[test]
    fn who_was_out_of_sight_is_found_where_it_went_on(seed in any::<u64>(), gap in 0.5_f64..4.0, tempo in 0.8_f64..1.2) {
        let movement = Movement(seed);
        let mut follower = follower(&[movement.take(24.0)]);
        play(&mut follower, movement, &path(2.0, &[(1.0, 6.0)]));
        prop_assert!(follower.resume(gap));
        let path = path(8.0 + tempo * gap, &[(tempo, 3.0)]);
        for (i, place) in play(&mut follower, movement, &path).into_iter().enumerate() {
            prop_assert!(place.is_none_or(|place| place.seconds > 7.0 || place.trust < 0.1), "{place:?}");
            prop_assert!(i < 25 || found(place, 0, path[i], 0.08), "{} at {i}: {place:?}", path[i]);
        }
    }

    /// Also where it went on farther away than one stretch of belief reaches.
    #[test]
    fn who_was_out_of_sight_for_long_is_found_as_soon(seed in any::<u64>(), gap in 4.0_f64..20.0, tempo in 0.8_f64..1.2) {
        let movement = Movement(seed);
        let mut follower = follower(&[movement.take(40.0)]);
        play(&mut follower, movement, &path(2.0, &[(1.0, 6.0)]));
        prop_assert!(follower.resume(gap));
        let path = path(8.0 + tempo * gap, &[(tempo, 1.0)]);
        for (i, place) in play(&mut follower, movement, &path).into_iter().enumerate().skip(10) {
            prop_assert!(found(place, 0, path[i], 0.12), "{} at {i}: {place:?}", path[i]);
        }
    }

    #[test]
    fn a_new_run_is_as_the_first(seed in any::<u64>(), frames in 1_usize..200) {
        let movement = Movement(seed);
        let mut played = follower(&[movement.take(6.0)]);
        let mut fresh = played.clone();
        for i in 0..frames {
            played.push(&Movement(!seed).pose(i as f64 / RATE));
        }
        prop_assert!(!played.resume(61.0));
        let path = path(1.0, &[(1.2, 3.0)]);
        prop_assert_eq!(play(&mut played, movement, &path), play(&mut fresh, movement, &path));
    }

    /// Whatever the place: no cue twice unless the performer was half a second before it again or went back by so
    /// much, and none outside its time.
    #[test]
    fn a_cue_is_said_once_in_a_pass(
        moves in prop::collection::vec((-0.4_f64..0.5, 0.0_f64..1.6, 0.4_f64..1.0), 1..400),
        at in prop::collection::vec(0.0_f64..5.0, 1..8),
        ahead in 0.05_f64..0.5,
    ) {
        let list: Vec<Cue> = at.iter().map(|&seconds| cue(0, seconds, ahead)).collect();
        let mut cues = Cues::new(list).expect("cues");
        let mut armed = vec![true; at.len()];
        let mut furthest = vec![0.0_f64; at.len()];
        let mut seconds = 0.0_f64;
        for (step, tempo, trust) in moves {
            seconds = (seconds + if !(-0.38..=0.48).contains(&step) { 4.0 * step } else { 0.02 }).clamp(0.0, 6.0);
            let place = Place { take: 0, seconds, tempo, trust };
            for ((armed, furthest), at) in armed.iter_mut().zip(&mut furthest).zip(&at) {
                *furthest = furthest.max(seconds);
                *armed |= at.max(*furthest) - seconds > 0.5;
            }
            for due in cues.push(&[place]) {
                prop_assert!((0.0..=ahead).contains(&due.seconds));
                prop_assert!(trust >= 0.6 && armed[due.cue]);
                armed[due.cue] = false;
                furthest[due.cue] = seconds;
            }
        }
    }

    /// Played straight on, cues come in their order, each once, as long before as was asked for.
    #[test]
    fn cues_come_in_order(
        at in prop::collection::vec(1.0_f64..9.0, 1..12),
        tempo in 0.5_f64..1.5,
        ahead in 0.2_f64..2.0,
    ) {
        let list: Vec<Cue> = at.iter().map(|&seconds| cue(0, seconds, ahead)).collect();
        let mut cues = Cues::new(list).expect("cues");
        let mut said = Vec::new();
        for seconds in path(0.0, &[(tempo, 20.0)]) {
            let place = Place { take: 0, seconds, tempo, trust: 1.0 };
            for due in cues.push(&[place]) {
                prop_assert!((seconds + due.seconds * tempo - at[due.cue]).abs() < 1e-9);
                prop_assert!(due.seconds > ahead - 0.021 || seconds < 0.1 * tempo);
                said.push(at[due.cue]);
            }
        }
        prop_assert_eq!(said.len(), at.len());
        prop_assert!(said.is_sorted());
    }
}

/// Every joint jitters by about 1.5 degrees about each axis (rms), independently from frame to frame.
fn jittered(mut pose: CanonicalPose, seed: u64, frame: usize) -> CanonicalPose {
    let noise = Movement(seed.wrapping_add(frame as u64) << 8);
    for (joint, q) in pose.iter_mut().enumerate() {
        (1..4).for_each(|i| q[i] += 0.045 * (noise.even(4 * joint + i) as f32 - 0.5));
        let norm = q.iter().map(|v| v * v).sum::<f32>().sqrt();
        q.iter_mut().for_each(|v| *v /= norm);
    }
    pose
}

#[test]
fn after_a_jump_jitter_of_the_suit_delays_little() {
    let delays = |jitter: bool| -> usize {
        let frames_until_found = |seed: u64| {
            let movement = Movement(seed);
            let mut follower = follower(&[movement.take(24.0)]);
            let mut path = path(2.0, &[(1.0, 8.0)]);
            let jump = path.len();
            path.extend(self::path(15.0, &[(1.0, 4.0)]));
            let places: Vec<_> = (0..path.len())
                .map(|i| {
                    let pose = movement.pose(path[i]);
                    follower.push(&if jitter { jittered(pose, seed, i) } else { pose })
                })
                .collect();
            (jump..path.len())
                .position(|i| found(places[i], 0, path[i], 0.2))
                .expect("found")
        };
        (0..16).map(frames_until_found).sum()
    };
    let (without, with) = (delays(false), delays(true));
    assert!(
        10 * with < 15 * without,
        "{with} instead of {without} frames in 16 jumps"
    );
}

/// What comes before the first cycle was not rehearsed, and is like every cycle that was.
#[test]
fn who_begins_a_walk_earlier_than_rehearsed_is_not_a_cycle_off() {
    for movement in (0..20).map(Movement) {
        let walk = |seconds: f64| -> CanonicalPose {
            let slowly = movement.pose(seconds);
            std::array::from_fn(|joint| {
                let turns = seconds / 1.1 + movement.even(10 * joint);
                let half = 0.25 * (std::f64::consts::TAU * turns).sin() as f32 + 0.05 * slowly[joint][1];
                [half.cos(), half.sin(), 0.0, 0.0]
            })
        };
        let mut follower = follower(&[(0..250).map(|i| walk(f64::from(i) / RATE)).collect()]);
        for (i, seconds) in path(-0.24, &[(1.0, 3.0)]).into_iter().enumerate() {
            let place = follower.push(&walk(seconds));
            assert!(
                i < 75 || found(place, 0, seconds, 0.15),
                "{} at {i}: {place:?}",
                movement.0
            );
        }
    }
}

/// The numbers of the cues that are sent along stretches of one second, which begin at these places.
fn sent(cues: Vec<Cue>, starts: &[f64], trust: f64) -> Vec<usize> {
    let mut cues = Cues::new(cues).expect("cues");
    let stretches = starts.iter().flat_map(|&start| path(start, &[(1.0, 1.0)]));
    let place = |seconds| Place {
        take: 0,
        seconds,
        tempo: 1.0,
        trust,
    };
    let due = stretches.flat_map(|seconds| cues.push(&[place(seconds)]));
    due.map(|due| due.cue).collect()
}

#[test]
fn a_skipped_cue_is_not_said_and_a_repeated_one_is_said_again() {
    let list = vec![cue(0, 2.0, 0.2), cue(0, 4.0, 0.2)];
    assert_eq!(sent(list, &[0.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0], 1.0), [1, 0, 1]);
}

#[test]
fn who_jumps_back_to_just_before_a_cue_is_sent_it_again_where_the_place_is_sure() {
    let list = || vec![cue(0, 1.5, 0.2)];
    assert_eq!(sent(list(), &[1.0, 1.1], 1.0), [0, 0]);
    assert_eq!(sent(list(), &[1.0, 1.1], 0.65), [0]);
    assert_eq!(
        sent(list(), &[1.0, 1.6], 1.0),
        [0],
        "a jump back behind it repeats nothing"
    );
}

/// A gap between the announcement and the moment: the pass goes on, unless the performer is farther back after it.
#[test]
fn a_cue_is_not_said_again_after_a_gap() {
    for (back_at, take, wanted) in [
        (9.2, 0, vec![]),
        (10.5, 0, vec![]),
        (8.3, 0, vec![0]),
        (0.0, 0, vec![1, 0]),
        (9.3, 1, vec![]),
    ] {
        let mut cues = Cues::new(vec![cue(0, 10.0, 1.5), cue(0, 0.4, 1.5)]).expect("cues");
        cues.add_alternative(0, 1, 10.1).expect("a cue");
        let play = |cues: &mut Cues, take, from, to| -> Vec<usize> {
            let place = |seconds| Place {
                take,
                seconds,
                tempo: 1.0,
                trust: 1.0,
            };
            let places = path(from, &[(1.0, to - from)]).into_iter().map(place);
            places
                .flat_map(|at| cues.push(&[at]))
                .map(|due| due.cue)
                .collect()
        };
        assert_eq!(play(&mut cues, 0, 0.0, 9.0), [1, 0]);
        cues.resume();
        assert_eq!(play(&mut cues, take, back_at, 10.6), wanted, "{back_at}");
    }
}

/// However many takes are alike, one that fits better is followed, wherever it stands.
#[test]
fn a_take_behind_many_that_are_alike_is_followed() {
    let mut takes = vec![Movement(7).take(4.0); 40];
    takes.push(Movement(8).take(4.0));
    let mut follower = follower(&takes);
    let places: Vec<_> = takes[40].iter().map(|pose| follower.push(pose)).collect();
    let found = places
        .iter()
        .position(|place| place.is_some_and(|p| p.take == 40 && p.trust > 0.5));
    assert!(found.is_some_and(|frame| frame < 20), "{found:?}");
}

/// The better a piece is rehearsed, the more takes share the belief in a moment: its cues come all the same.
#[test]
fn cues_come_whichever_of_several_takes_is_followed() {
    let movement = Movement(7);
    for (count, differ) in [(2, false), (40, false), (2, true), (5, true)] {
        let other = |n: usize| if differ { 100 + n as u64 } else { 100 };
        let takes: Vec<_> = (0..count).map(|n| again(movement, other(n), 14.0)).collect();
        let mut follower = follower(&takes);
        let at = [0.6, 5.0, 8.0, 11.0];
        let mut cues = Cues::new(at.map(|seconds| cue(0, seconds, 0.2)).to_vec()).expect("cues");
        for (number, seconds) in at.into_iter().enumerate() {
            (1..count).for_each(|take| cues.add_alternative(number, take, seconds).expect("a cue"));
        }
        let mut said = Vec::new();
        for (frame, pose) in again(movement, 99, 14.0).iter().enumerate() {
            follower.push(pose);
            for due in cues.push(follower.places()) {
                let when = frame as f64 / RATE + due.seconds;
                assert!(
                    (when - at[due.cue]).abs() < 0.06,
                    "{count} {differ}: {due:?} at {when}"
                );
                assert!(due.seconds > 0.15 && due.trust > 0.6, "{count} {differ}: {due:?}");
                said.push(due.cue);
            }
        }
        assert_eq!(said, [0, 1, 2, 3], "{count} {differ}");
    }
}

#[test]
fn nothing_is_said_where_nobody_is_sure_or_moves() {
    let mut cues = Cues::new(vec![cue(1, 1.0, 0.5)]).expect("cues");
    let place = |take, tempo, trust| Place {
        take,
        seconds: 0.9,
        tempo,
        trust,
    };
    let mut said = |place: Option<Place>| (0..50).map(|_| cues.push(place.as_slice()).len()).sum::<usize>();
    for place in [
        None,
        Some(place(0, 1.0, 1.0)),
        Some(place(1, 0.1, 1.0)),
        Some(place(1, 1.0, 0.5)),
    ] {
        assert_eq!(said(place), 0);
    }
    assert_eq!(said(Some(place(1, 1.0, 1.0))), 1);
}

/// These movements are slow and have one mean posture: now and then one looks like a moment of another.
#[test]
fn another_movement_fires_next_to_nothing() {
    let mut said = 0;
    for seed in 0..30 {
        let mut follower = follower(&[Movement(!seed).take(12.0), Movement(seed).take(12.0)]);
        let every = (0..48).map(|i| Cue {
            take: i % 2,
            seconds: 0.5 * (i / 2) as f64,
            ahead: 0.2,
        });
        let mut cues = Cues::new(every.collect()).expect("cues");
        let path = path(0.0, &[(1.0, 12.0)]);
        for place in play(&mut follower, Movement(seed ^ 0x5555), &path) {
            said += cues.push(place.as_slice()).len();
        }
    }
    // One who is followed through a take passes 24 of its cues.
    assert!(said < 30 * 24 * 5 / 100, "{said}");
}

#[test]
fn what_is_no_take_or_no_time_is_refused() {
    for takes in [vec![], vec![vec![]]] {
        assert!(Follower::new(takes).is_err());
    }
    for (seconds, ahead) in [
        (-1.0, 0.2),
        (f64::NAN, 0.2),
        (1.0, -0.1),
        (1.0, 2.5),
        (1.0, f64::NAN),
    ] {
        assert!(
            Cues::new(vec![Cue {
                take: 0,
                seconds,
                ahead
            }])
            .is_err()
        );
    }
}

#[test]
fn broken_frames_and_a_single_frame_do_no_harm() {
    let pose = Movement(1).pose(0.0);
    let mut follower = follower(&[vec![pose]]);
    let broken = [[f32::NAN; 4]; JOINT_COUNT];
    for i in 0..300 {
        let place = follower.push(if i % 3 == 0 { &broken } else { &pose });
        assert!(place.is_none_or(|p| p.seconds.is_finite() && p.tempo.is_finite() && p.trust <= 1.0));
    }
}
