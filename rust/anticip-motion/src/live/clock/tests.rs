//! The clock of a stream: order, rates, jitter, senders that start over.

use super::*;

fn stamp(number: impl Into<Option<u32>>, time: impl Into<Option<f64>>, arrival: f64) -> Stamp {
    Stamp {
        number: number.into(),
        time: time.into(),
        arrival,
    }
}

fn seconds(placement: Placement) -> f64 {
    match placement {
        Placement::Next { seconds, .. } => seconds,
        _ => panic!("{placement:?}"),
    }
}

/// Pseudo-random numbers in 0..1.
fn noise(mut state: u32) -> impl FnMut() -> f64 {
    move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state) / f64::from(u32::MAX)
    }
}

/// Standard deviation.
fn spread(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
}

/// Whether the frame continues the stream after `missing` lost ones.
fn continues_after(missing: u64, placement: Placement) -> bool {
    matches!(placement, Placement::Next { starts, lost, .. } if !starts && lost == missing)
}

/// A clock after `frames` frames at `rate` a second.
fn clock_after(frames: u32, rate: f64) -> StreamClock {
    let mut clock = StreamClock::new();
    for i in 0..frames {
        let t = f64::from(i) / rate;
        clock.take(stamp(i, 100.0 + t, t));
    }
    clock
}

#[test]
fn numbers_order_and_count_losses() {
    let mut c = clock_after(12, 60.0);
    let at = |i: u32| stamp(i, 100.0 + f64::from(i) / 60.0, f64::from(i) / 60.0);
    assert_eq!(c.take(at(11)), Placement::Doubled);
    assert!(continues_after(2, c.take(at(14))));
    assert_eq!(c.take(at(12)), Placement::Late { lost: true });
    assert_eq!(c.take(at(12)), Placement::Doubled);
    assert_eq!(c.take(at(13)), Placement::Late { lost: true });
    assert!(matches!(c.take(at(15)), Placement::Next { lost: 0, .. }));
    // Frames sent before the first were never counted as lost.
    let mut c = StreamClock::new();
    c.take(at(7));
    c.take(at(9));
    assert_eq!(
        [6, 8].map(|i| c.take(at(i))),
        [false, true].map(|lost| Placement::Late { lost })
    );
    // A sender that restarts does not bring back lost frames.
    let mut c = clock_after(200, 50.0);
    for i in 0..9 {
        let again = stamp(i, 200.0 + f64::from(i) / 50.0, 5.0 + f64::from(i) / 50.0);
        assert_eq!(c.take(again), Placement::Late { lost: false });
    }
}

#[test]
fn numbers_wrap_and_times_place() {
    for rate in [24.0, 50.0, 60.0, 240.0, 1000.0] {
        let mut c = StreamClock::new();
        for i in 0..600u32 {
            let t = f64::from(i) / rate;
            let placement = c.take(stamp(u32::MAX.wrapping_sub(99).wrapping_add(i), 5.0 + t, t));
            assert!((seconds(placement) - 5.0 - t).abs() < 1e-6, "{rate} {i}");
        }
        assert!((c.rate().expect("measured") / rate - 1.0).abs() < 1e-3);
    }
}

#[test]
fn strange_frames_change_nothing_and_a_sender_that_starts_over_is_recognised() {
    let mut c = clock_after(100, 60.0);
    for i in 0..1000u32 {
        // A thousand stray frames between the frames.
        assert!(!matches!(
            c.take(stamp(50_000 + i, 900.0 + f64::from(i) / 60.0, 1.7)),
            Placement::Next { .. }
        ));
        if i % 5 == 0 {
            let n = 100 + i / 5;
            let t = f64::from(n) / 60.0;
            assert!(matches!(
                c.take(stamp(n, 100.0 + t, t)),
                Placement::Next {
                    lost: 0,
                    starts: false,
                    ..
                }
            ));
        }
    }
    for (number, time) in [(0, 0.0), (200, 0.0), (7_000_000, 4e6)] {
        let mut c = clock_after(250, 60.0);
        let restarts: Vec<bool> = (0..20u32)
            .map(|i| {
                let placement = c.take(stamp(
                    number + i,
                    time + f64::from(i) / 60.0,
                    5.0 + f64::from(i) / 60.0,
                ));
                matches!(placement, Placement::Next { starts: true, .. })
            })
            .collect();
        assert_eq!(
            restarts.iter().position(|&b| b),
            Some(CONFIRMED as usize - 1),
            "{number}"
        );
        assert_eq!(restarts.iter().filter(|&&b| b).count(), 1);
    }
}

#[test]
fn a_clock_that_is_set_bends_nothing() {
    for step in [-3000.0, -0.5, 0.05, 0.16, 0.95, 7.0, 1e6] {
        let mut c = clock_after(100, 50.0);
        for i in 100..200u32 {
            let t = f64::from(i) / 50.0;
            let placement = c.take(stamp(i, 100.0 + t + step, t));
            assert!((seconds(placement) - 100.0 - t).abs() < 1e-4, "{step} {i}");
        }
    }
}

#[test]
fn without_numbers_a_clock_that_is_set_bends_nothing_and_begins_nothing_anew() {
    for set in [3600.0, 1.5, 0.5, 0.1, -0.1, -0.5, -0.99, -1.5, -3600.0] {
        let mut c = StreamClock::new();
        let mut missing = 0;
        for i in 0..1200u32 {
            let t = f64::from(i) / 60.0;
            // The clock is set once more after ten seconds and is still used.
            let reported = 9000.0 + t + set * f64::from(i / 400);
            match c.take(stamp(None, reported, 1.0 + t)) {
                Placement::Next { seconds, starts, .. } => {
                    assert_eq!(starts, i == 0, "{set} {i}");
                    assert!((seconds - 9000.0 - t).abs() < 1e-3, "{set} {i}: {seconds}");
                    assert!((c.sender_time(seconds) - reported).abs() < 1e-3, "{set} {i}");
                }
                placement => {
                    let late = Placement::Late { lost: false };
                    let expected = if set.abs() > 1.0 { Placement::Strange } else { late };
                    assert_eq!(placement, expected, "{set} {i}");
                    missing += 1;
                }
            }
        }
        assert_eq!(missing, if set > 0.0 && set < 1.0 { 0 } else { 4 }, "{set}");
        assert!((c.rate().expect("measured") / 60.0 - 1.0).abs() < 1e-3, "{set}");
    }
}

#[test]
fn without_numbers_times_that_go_back_after_a_silence_restart_the_stream() {
    let mut c = StreamClock::new();
    let restarts = (0..200u32).filter(|i| {
        let t = f64::from(*i) / 60.0;
        let (reported, pause) = if *i < 100 { (50.0 + t, 0.0) } else { (t, 0.4) };
        let placement = c.take(stamp(None, reported, t + pause));
        matches!(placement, Placement::Next { starts: true, .. })
    });
    assert_eq!(restarts.collect::<Vec<_>>(), [0, 100 + CONFIRMED - 1]);
}

#[test]
fn without_numbers_a_burst_of_delayed_packets_stays_late() {
    let mut c = StreamClock::new();
    let mut take = |time: f64, arrival: f64| c.take(stamp(None, time, arrival));
    for i in 0..100 {
        take(5.0 + f64::from(i) / 60.0, f64::from(i) / 60.0);
    }
    for i in 0..8 {
        let placement = take(6.0 + f64::from(i) / 60.0, 99.2 / 60.0 + f64::from(i) * 1e-3);
        assert_eq!(placement, Placement::Late { lost: false });
    }
    let next = seconds(take(5.0 + 100.0 / 60.0, 100.0 / 60.0));
    assert!((next - 5.0 - 100.0 / 60.0).abs() < 1e-6);
}

#[test]
fn a_sender_that_stands_still_for_a_moment_or_becomes_slower_is_believed() {
    // The first pause ends in a network that held everything back; arrivals do not show it.
    for (pause, held) in [(0.3, 0.25), (0.3, 0.0), (0.9, 0.0)] {
        let mut c = clock_after(100, 60.0);
        for i in 100..200u32 {
            let rate = if i < 150 { 60.0 } else { 20.0 };
            let t = 150f64.min(f64::from(i)) / 60.0 + f64::from(i.max(150) - 150) / rate + pause;
            let arrival = t.max(99.0 / 60.0 + pause + held);
            let placement = c.take(stamp(i, 100.0 + t, arrival));
            assert!(
                (seconds(placement) - 100.0 - t).abs() < 1e-3,
                "{pause} {held} {i}"
            );
        }
    }
}

#[test]
fn another_rate_in_mid_stream_is_known_after_eight_frames() {
    // A warm phone lowers its rate. Numbered times are smoothed, so a wrong rate would move frames.
    for numbered in [true, false] {
        for (before, after) in [
            (60.0, 30.0),
            (60.0, 40.0),
            (60.0, 50.0),
            (50.0, 30.0),
            (30.0, 60.0),
        ] {
            let mut c = StreamClock::new();
            let (mut worst, mut t) = ([0.0_f64; 3], 0.0);
            for i in 0..500u32 {
                let placement = c.take(stamp(numbered.then_some(i), 100.0 + t, t));
                let late = usize::from(i > 308) + usize::from(i > 340);
                worst[late] = worst[late].max((seconds(placement) - 100.0 - t).abs());
                t += 1.0 / if i < 300 { before } else { after };
            }
            let good = worst[0] < 0.005 && worst[1] < 0.003 && worst[2] < 0.001;
            assert!(good, "{before} to {after} Hz: {worst:?}");
            assert!((c.rate().expect("measured") / after - 1.0).abs() < 1e-3);
        }
    }
    // A few long steps are not a new rate: three of four frames lost, without numbers.
    let mut c = StreamClock::new();
    for i in (0..400u32).filter(|i| !(200..228).contains(i) || i % 4 == 0) {
        let t = f64::from(i) / 60.0;
        c.take(stamp(None, 100.0 + t, t));
        assert!(
            i < 8 || (60.0 * c.interval().expect("known") - 1.0).abs() < 1e-6,
            "{i}"
        );
    }
}

#[test]
fn without_times_arrivals_stand_in_and_jitter_is_taken_out() {
    let mut noise = noise(9);
    for numbered in [true, false] {
        for time in [None, Some(0.0)] {
            if !numbered && time.is_some() {
                continue;
            }
            let mut c = StreamClock::new();
            let mut errors = Vec::new();
            for i in 0..600u32 {
                let t = f64::from(i) / 60.0;
                let at = stamp(numbered.then_some(i), time, t + 0.01 * noise());
                if let Placement::Next { seconds, .. } = c.take(at) {
                    errors.push(c.sender_time(seconds) - t);
                }
            }
            assert!(errors.len() > 570, "{}", errors.len());
            let sd = spread(&errors[120..]);
            assert!(
                sd < if numbered { 0.0015 } else { 0.006 },
                "{numbered} {time:?}: {sd}"
            );
            assert!((c.rate().expect("measured") - 60.0).abs() < 1.0);
        }
    }
}

#[test]
fn without_numbers_jitter_makes_no_frame_another_s_nor_the_rate_wrong() {
    // Per thousand frames: how many may be taken for doubled; and the largest rms error of places (seconds).
    for (rate, jitter, loss, most, sd) in [
        (60.0, 0.0005, 0.03, 0, 0.0003),
        (60.0, 0.003, 0.0, 5, 0.0015),
        (60.0, 0.003, 0.03, 5, 0.003),
        (100.0, 0.003, 0.0, 15, 0.0025),
        (120.0, 0.003, 0.03, 40, 0.003),
    ] {
        let mut noise = noise(5);
        let (mut c, mut last, mut errors, mut same) = (StreamClock::new(), 0.0_f64, Vec::new(), 0);
        for i in 0..2000_u32 {
            let t = f64::from(i) / rate;
            last = last.max(t - jitter * noise().max(1e-9).ln());
            if noise() < loss {
                continue;
            }
            match c.take(stamp(None, None, last)) {
                Placement::Next { seconds, .. } => errors.push(c.sender_time(seconds) - t),
                _ => same += 1,
            }
        }
        assert!(same <= 2 * most, "{rate} Hz, {jitter}: {same}");
        let off = spread(&errors[500..]);
        assert!(off < sd, "{rate} Hz, {jitter}: {off}");
        assert!((c.rate().expect("measured") / rate - 1.0).abs() < 0.03);
    }
}

#[test]
fn quick_frames_with_numbers_alone_are_placed_through_jitter_and_loss() {
    for (rate, seed) in [90.0, 120.0, 240.0, 480.0]
        .into_iter()
        .flat_map(|rate| (0..20).map(move |seed| (rate, seed)))
    {
        let mut noise = noise(77 * (seed + 1));
        let (mut c, mut last, mut errors) = (StreamClock::new(), 0.0_f64, Vec::new());
        for i in 0..(rate * 8.0) as u32 {
            let t = f64::from(i) / rate;
            // In order: each is at least as late as the latest before.
            last = last.max(t + 0.012 * noise().powi(2));
            if noise() < 0.03 {
                continue;
            }
            let place = seconds(c.take(stamp(i, None, last)));
            let place = c.sender_time(place);
            if t > 1.0 {
                errors.push(place - t);
            }
        }
        let sd = spread(&errors);
        assert!(sd < 0.01, "{rate} Hz, {seed}: {sd}");
        assert!((c.rate().expect("measured") / rate - 1.0).abs() < 0.05);
    }
}

#[test]
fn seconds_in_binary32_place_frames_after_days_as_well() {
    // A VMC sender that has run for so many hours: the resolution is 0.25 to 31 ms.
    for (hours, most) in [
        (1.0, 0.0005),
        (10.0, 0.0015),
        (20.0, 0.003),
        (48.0, 0.004),
        (80.0, 0.014),
        (168.0, 0.001),
        (300.0, 0.001),
    ] {
        let mut c = StreamClock::new();
        let (mut errors, mut same) = (Vec::new(), 0);
        for i in 0..1200_u32 {
            let t = f64::from(i) / 60.0;
            let reported = f64::from((3600.0 * hours + t) as f32);
            if let Placement::Next { seconds, .. } = c.take(stamp(None, reported, t)) {
                errors.push(seconds - 3600.0 * hours - t);
            } else {
                same += 1;
            }
        }
        assert!(same < 60, "{hours} h: {same}");
        let errors = &errors[240..];
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        let worst = errors.iter().map(|e| (e - mean).abs()).fold(0.0, f64::max);
        assert!(worst < most, "{hours} h: {worst}");
    }
}

#[test]
fn a_clock_that_runs_wrong_gives_way_to_arrivals() {
    for factor in [1000.0, 1.5, 1.02] {
        let mut c = StreamClock::new();
        let mut last = 0.0;
        let mut first = None;
        for i in 0..3000u32 {
            let t = f64::from(i) / 60.0;
            if let Placement::Next { seconds, .. } = c.take(stamp(i, t * factor, t)) {
                if i > 1800 {
                    first.get_or_insert((seconds, t));
                }
                last = seconds;
            }
        }
        let (s, t) = first.expect("goes on");
        let pace = (last - s) / (2999.0 / 60.0 - t);
        assert!((pace - 1.0).abs() < 0.01, "{factor}: {pace}");
    }
}

#[test]
fn without_numbers_times_that_leap_give_way_to_arrivals() {
    // Times in milliseconds at two rates; from the first frame on, and after ten seconds in seconds.
    for (rate, from) in [(60.0, 0u32), (30.0, 0), (60.0, 600)] {
        let mut c = StreamClock::new();
        let mut places = Vec::new();
        for i in 0..900u32 {
            let t = f64::from(i) / rate;
            let reported = if i < from { t } else { 1000.0 * t + 0.25 };
            match c.take(stamp(None, reported, t)) {
                Placement::Next { seconds, starts, .. } => {
                    assert!(i == 0 || !starts);
                    places.push(seconds - t);
                }
                _ => assert!((from..from + CONFIRMED + 2).contains(&i), "{rate} {i}"),
            }
        }
        let late = &places[places.len() - 200..];
        assert!(late.iter().all(|p| (p - late[0]).abs() < 1e-3), "{rate} {from}");
        assert!((c.rate().expect("measured") / rate - 1.0).abs() < 0.01);
    }
}

#[test]
fn a_clock_told_more_rarely_than_frames_come_gives_way_to_arrivals() {
    let count_played = |untimed: &dyn Fn(u32) -> bool, split: f64| {
        let (mut c, mut frames) = (StreamClock::new(), 0);
        for i in 0..1200u32 {
            let t = f64::from(i) / 60.0;
            let time = (!untimed(i)).then_some(t);
            frames += u32::from(matches!(c.take(stamp(None, time, t)), Placement::Next { .. }));
            if split > 0.0 {
                // Another part of the same frame has no time.
                assert_eq!(c.take(stamp(None, None, t + split)), Placement::Same);
            }
        }
        (frames, c.by_arrival)
    };
    for rare in [2, 4, 15, 30] {
        let (frames, by_arrival) = count_played(&|i| i % rare > 0, 0.0);
        assert!(by_arrival && frames > 1140, "{rare}: {frames}");
    }
    // Split bundles, and times that are missing now and then, are not such a clock.
    assert_eq!(count_played(&|_| false, 0.001), (1200, false));
    assert_eq!(count_played(&|i| i % 10 == 9, 0.0), (1080, false));
}

#[test]
fn a_sender_that_had_paused_goes_on_as_it_says() {
    let mut c = clock_after(200, 60.0);
    for i in 200..240u32 {
        let t = f64::from(i) / 60.0;
        let placement = c.take(stamp(i, 100.0 + t, 3.0 + t));
        assert!(continues_after(0, placement));
        assert!((seconds(placement) - 100.0 - t).abs() < 1e-6);
    }
    let local = c.map().local(100.0 + 240.0 / 60.0);
    assert!((local - 7.0).abs() < 0.002, "{local}");
    // A backlog that arrives at once is not a pause.
    let mut c = clock_after(200, 60.0);
    for i in 200..380u32 {
        let t = f64::from(i) / 60.0;
        let placement = c.take(stamp(i, 100.0 + t, t.max(380.0 / 60.0)));
        assert!(continues_after(0, placement));
    }
}

#[test]
fn a_way_that_has_become_longer_is_learned_without_a_new_beginning() {
    let mut c = clock_after(200, 60.0);
    let at = |i: u32, late: f64| {
        let t = f64::from(i) / 60.0;
        stamp(i, 100.0 + t, late + t)
    };
    for i in 200..260 {
        assert!(continues_after(0, c.take(at(i, 0.2))));
    }
    let local = c.map().local(100.0 + 260.0 / 60.0);
    assert!((local - 260.0 / 60.0 - 0.2).abs() < 0.002, "{local}");
    // Bursts do not count: frames on time between them show that the delay has not grown.
    let mut c = clock_after(200, 60.0);
    for i in 200..800u32 {
        let held = f64::from(i % 60).mul_add(-1.0 / 60.0, 0.15).max(0.0);
        assert!(matches!(
            c.take(at(i, held)),
            Placement::Next { starts: false, .. }
        ));
    }
    let local = c.map().local(100.0 + 800.0 / 60.0);
    assert!((local - 800.0 / 60.0).abs() < 0.002, "{local}");
}

/// Also for the frame in which the sender's clock is found unusable.
#[test]
fn every_frame_has_a_local_time() {
    let fast = |i: u32| (Some(i), 1.75e9 + f64::from(i) / 60.0 * 1.02);
    let coarse = |i: u32| (None, f64::from(300_000.0 + (f64::from(i) / 60.0) as f32));
    for sender in [&fast as &dyn Fn(u32) -> (Option<u32>, f64), &coarse] {
        let mut c = StreamClock::new();
        for i in 0..1500 {
            let (number, time) = sender(i);
            let arrival = 1e5 + f64::from(i) / 60.0;
            if let Placement::Next { seconds, .. } = c.take(stamp(number, time, arrival)) {
                let local = c.map().local(seconds);
                assert!((local - arrival).abs() < 1.0, "frame {i}: {local} for {arrival}");
            }
        }
    }
}
