//! Properties that hold for any input: outputs stay in the hull of their targets and never jump.

use crate::{DT, SILENCE};
use anticip_controls::{
    Crossfade, Desk, Forecast, HORIZONS_MS, LOUDNESS, Mode, ModelOutputWithLeads, NEUTRAL, Out,
    PARAMETER_COUNT, Presence, Shape, Shaper, Silence, Smoother, Smoothing, Trigger, at_lead, scalar_mapping,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn smoothing() -> impl Strategy<Value = Smoothing> {
    prop_oneof![
        Just(Smoothing::None),
        (0.001..2.0).prop_map(|half_life| Smoothing::Spring { half_life }),
        (0.05..50.0, 0.0..100.0).prop_map(|(min_cutoff, beta)| Smoothing::OneEuro { min_cutoff, beta }),
    ]
}

fn spring(half_life: f64) -> Smoother {
    Smoother::new(vec![Smoothing::Spring { half_life }])
}

fn step(smoother: &mut Smoother, goal: f64, dt: f64) -> f64 {
    let mut value = [goal];
    smoother.step(&mut value, dt);
    value[0]
}

fn rule() -> Trigger {
    Trigger::new([0.5, 0.2], [0.12, 1.0], (0.8, 5), 200.0, None)
}

fn desk() -> Desk {
    Desk::new(
        [Smoothing::Spring { half_life: 0.02 }; 8],
        SILENCE,
        NEUTRAL,
        rule(),
    )
}

fn model_output(level: f64, hazard: f64) -> ModelOutputWithLeads<'static> {
    ModelOutputWithLeads {
        forecast: [[level; 5]; 8],
        hazards: [vec![hazard; 25].leak(); 2],
        gate: 1.0,
        leads_ms: [0.0; 8],
        event_lead_ms: 0.0,
        reaches: &[],
    }
}

fn play(desk: &mut Desk, output: &ModelOutputWithLeads) -> Out {
    desk.play(Some(output), &[0.5; 7], None, 1.0, DT)
}

proptest! {
    #[test]
    fn smoothing_never_leaves_the_hull_of_its_targets_however_it_is_retuned(
        kind in smoothing(),
        targets in vec((0.0..=1.0, 0.0..0.2, prop_oneof![
            4 => Just(None),
            1 => smoothing().prop_map(|kind| Some((Some(kind), 1.0))),
            1 => (0.0..100.0).prop_map(|amount| Some((None, amount))),
        ]), 2..40),
    ) {
        let mut smoother = Smoother::new(vec![kind]);
        let (mut low, mut high) = (1.0_f64, 0.0_f64);
        for (target, dt, change) in targets {
            if let Some((kind, amount)) = change {
                smoother.set_amount(amount);
                kind.into_iter().for_each(|kind| smoother.retune(vec![kind]));
            }
            (low, high) = (low.min(target), high.max(target));
            let out = step(&mut smoother, target, dt);
            prop_assert!(out >= low - 1e-9 && out <= high + 1e-9, "{out} of {low}..{high}");
        }
    }

    #[test]
    fn a_step_is_approached_from_one_side(kind in smoothing(), a in 0.0..=1.0, b in 0.0..=1.0, dt in 0.001..0.1) {
        let mut smoother = Smoother::new(vec![kind]);
        let mut last = step(&mut smoother, a, dt);
        for _ in 0..50 {
            let out = step(&mut smoother, b, dt);
            prop_assert!((out - b).abs() <= (last - b).abs() + 1e-12);
            prop_assert!((out - b) * (a - b) >= -1e-12);
            last = out;
        }
    }

    #[test]
    fn the_spring_does_not_depend_on_the_frame_rate(half_life in 0.005..0.5, pieces in 1_u32..20) {
        let (mut one, mut many) = (spring(half_life), spring(half_life));
        step(&mut one, 0.0, 0.0);
        step(&mut many, 0.0, 0.0);
        let whole = step(&mut one, 1.0, 0.1);
        let mut parts = 0.0;
        for _ in 0..pieces {
            parts = step(&mut many, 1.0, 0.1 / f64::from(pieces));
        }
        prop_assert!((whole - parts).abs() < 1e-12);
    }

    #[test]
    fn a_lead_stays_in_range_and_hits_the_horizons(
        rows in vec(-10.0..10.0, 40),
        lead in 0.0..=400.0,
        k in 0_usize..5,
    ) {
        let forecast: Forecast = std::array::from_fn(|p| std::array::from_fn(|h| rows[5 * p + h]));
        prop_assert!(at_lead(&forecast, &[lead; 8]).iter().all(|v| (0.0..=1.0).contains(v)));
        for (p, value) in at_lead(&forecast, &[HORIZONS_MS[k]; 8]).into_iter().enumerate() {
            prop_assert!((value - forecast[p][k].clamp(0.0, 1.0)).abs() < 1e-9);
        }
        let next = (k + 1).min(HORIZONS_MS.len() - 1);
        let halfway = [0.5 * (HORIZONS_MS[k] + HORIZONS_MS[next]); 8];
        for (p, value) in at_lead(&forecast, &halfway).into_iter().enumerate() {
            let between = 0.5 * (forecast[p][k] + forecast[p][next]);
            prop_assert!((value - between.clamp(0.0, 1.0)).abs() < 1e-9);
        }
        prop_assert_eq!(at_lead(&[[f64::NAN; 5]; 8], &[lead; 8]), [0.0; 8]);
    }

    #[test]
    fn the_scalars_play_in_range_whatever_they_are(
        scalars in proptest::array::uniform7(prop_oneof![-5.0..5.0, Just(f64::NAN), Just(f64::INFINITY)]),
    ) {
        prop_assert!(scalar_mapping(&scalars).iter().all(|v| (0.0..=1.0).contains(v)));
    }

    /// Live values may jump; the changes made on signal loss and return are bounded by the slope of the
    /// fades.
    #[test]
    fn silence_and_return_never_jump(frames in vec(any::<bool>(), 5..300)) {
        let mut presence = Presence::new(SILENCE, &NEUTRAL);
        let mut last = [0.8; 8];
        presence.live(&mut last, DT);
        let mut since = 0.0;
        for is_live in frames {
            since += DT;
            let mut out = [0.8; 8];
            if is_live {
                presence.live(&mut out, since);
                since = 0.0;
            } else {
                out.copy_from_slice(presence.silence(DT));
            }
            for (out, last) in out.iter().zip(last) {
                prop_assert!((out - last).abs() <= 1.5 * DT / 0.4 + 1e-9);
                prop_assert!((0.0..=1.0).contains(out));
            }
            last = out;
        }
    }

    #[test]
    fn how_often_silence_is_asked_does_not_matter(gaps in vec((0.001..5.0, 0_u32..5), 1..30)) {
        let mut asked = Presence::new(SILENCE, &NEUTRAL);
        let mut never = asked.clone();
        for (n, (dt, ticks)) in gaps.into_iter().enumerate() {
            for _ in 0..ticks {
                asked.silence(dt / f64::from(ticks + 1));
            }
            let mut one = [(n % 7) as f64 / 7.0; 8];
            let mut other = one;
            asked.live(&mut one, dt);
            never.live(&mut other, dt);
            prop_assert_eq!(one, other);
        }
    }

    #[test]
    fn whatever_hazards_say_events_are_bounded(
        rows in vec((vec(prop_oneof![0.0..=1.0, Just(f64::NAN)], 1..30), vec(0.0..=1.0, 1..30), 0.0..=1.0), 1..40),
        lead in prop_oneof![4 => 0.0..=400.0, 1 => Just(1e30)],
        waits in any::<bool>(),
    ) {
        let last_moment = waits.then_some(anticip_controls::LastMoment { lead_ms: 100.0, sure: 0.95 });
        let mut rule = Trigger::new([0.4, 0.2], [0.12, 1.0], (0.8, 5), 200.0, last_moment);
        for (beats, phrases, gate) in rows {
            for event in rule.step([&beats, &phrases], gate, lead, DT) {
                prop_assert!((0.0..=1.0).contains(&event.strength), "{event:?}");
                prop_assert!(event.ahead > 0.0 && event.ahead <= 0.7, "{event:?}");
            }
        }
    }

    #[test]
    fn no_number_of_taught_values_breaks_a_desk(taught in vec(0.0..=1.0, 0..6), places in vec(0_usize..8, 0..4)) {
        let mut desk = desk();
        let places: Vec<Option<usize>> = places.into_iter().map(|p| (p < 4).then_some(p)).collect();
        let beside = places.iter().filter(|place| place.is_none()).count();
        desk.set_mapping(places, vec![Smoothing::None; beside], &vec![0.0; beside], &vec![0.5; beside]);
        let (values, _) = desk.play(Some(&model_output(0.5, 0.0)), &[0.5; 7], Some(&taught), 1.0, DT);
        prop_assert!(values.iter().chain(desk.extras()).all(|v| (0.0..=1.0).contains(v)));
    }
}

#[test]
fn half_life_is_the_half_of_a_step_and_the_amount_scales_it() {
    let mut smoother = spring(0.3);
    step(&mut smoother, 0.0, 0.0);
    assert!((step(&mut smoother, 1.0, 0.3) - 0.5).abs() < 1e-12);
    let mut slow = spring(0.1);
    step(&mut slow, 0.0, 0.0);
    slow.set_amount(3.0);
    assert!((step(&mut slow, 1.0, 0.3) - 0.5).abs() < 1e-12);
    slow.set_amount(0.0);
    assert_eq!(step(&mut slow, 0.25, DT), 0.25);
    // An amount next to 0 acts like 0 and does not divide by it.
    slow.set_amount(1e-300);
    assert_eq!(step(&mut slow, 0.5, DT), 0.5);
}

#[test]
fn a_target_that_is_no_number_is_held() {
    let mut smoother = spring(0.02);
    step(&mut smoother, 0.4, 0.0);
    assert!((step(&mut smoother, f64::NAN, DT) - 0.4).abs() < 1e-12);
}

#[test]
fn one_euro_is_steady_at_rest_and_quick_in_motion() {
    let filter = |beta| {
        Smoother::new(vec![Smoothing::OneEuro {
            min_cutoff: 1.0,
            beta,
        }])
    };
    let (mut quick, mut slow) = (filter(20.0), filter(0.0));
    // Input alternates by +-0.001; less than 0.0006 of that passes.
    let passed: Vec<f64> = (0..400)
        .map(|n| step(&mut quick, 0.5 + 0.002 * f64::from(n % 2), DT))
        .collect();
    let spread = passed[200..]
        .iter()
        .map(|v| (v - 0.501).abs())
        .fold(0.0, f64::max);
    assert!(spread < 0.0006, "{spread}");
    step(&mut slow, 0.5, DT);
    let (mut a, mut b) = (0.0, 0.0);
    for n in 0..25 {
        let goal = 0.5 + 0.5 * f64::from(n) / 24.0;
        (a, b) = (step(&mut quick, goal, DT), step(&mut slow, goal, DT));
    }
    assert!(1.0 - a < 0.5 * (1.0 - b), "{a} {b}");
}

#[test]
fn silence_holds_one_second_then_fades_in_two() {
    let mut presence = Presence::new(SILENCE, &NEUTRAL);
    presence.live(&mut [1.0; 8], DT);
    let after = |presence: &mut Presence, ticks| {
        let last = (0..ticks).map(|_| presence.silence(DT)[1]).last();
        last.expect("some ticks")
    };
    assert_eq!(after(&mut presence, 50), 1.0);
    assert!((after(&mut presence, 50) - 0.5).abs() < 1e-9);
    assert_eq!(after(&mut presence, 51), 0.0);
    let mut back = Vec::new();
    for n in 0..30 {
        let mut values = [1.0; 8];
        presence.live(&mut values, if n == 0 { 3.04 } else { DT });
        back.push(values[1]);
    }
    assert!(back[0] < 0.05 && back.is_sorted() && back[29] == 1.0, "{back:?}");
}

#[test]
fn a_catch_up_of_nothing_is_at_once() {
    let mut presence = Presence::new(
        Silence {
            catch_up: 0.0,
            ..SILENCE
        },
        &NEUTRAL,
    );
    let mut values = [0.9; 8];
    presence.live(&mut values, 2.0);
    assert_eq!(values, [0.9; 8]);
}

#[test]
fn a_crossfade_arrives() {
    let mut fade = Crossfade::new(0.1);
    let mut live = [1.0];
    fade.step(&mut live, DT);
    assert_eq!(live, [1.0]);
    fade.start(&[0.0]);
    let mut seen = Vec::new();
    for _ in 0..6 {
        let mut live = [1.0];
        fade.step(&mut live, DT);
        seen.push(live[0]);
    }
    assert!(seen.is_sorted() && seen[0] > 0.0 && seen[0] < 0.2, "{seen:?}");
    assert_eq!(seen[4..], [1.0, 1.0]);
}

#[test]
fn a_frame_after_ticks_of_silence_takes_the_hand_no_farther_than_a_frame() {
    let mut desk = desk();
    play(&mut desk, &model_output(0.8, 0.0));
    desk.set_mode(Mode::Stopped);
    desk.silence(DT);
    let before = desk.silence(0.48)[0];
    let (after, _) = desk.play(Some(&model_output(0.8, 0.0)), &[0.5; 7], None, 1.0, 0.52);
    // The 1 s fade to neutral is half over: a frame of 20 ms covers at most 3 % of it.
    assert!(
        (after[0] - before).abs() < 0.3 * 0.03 + 1e-9,
        "{before} {}",
        after[0]
    );
}

/// A desk that announces beats at least 100 ms ahead.
fn beats() -> Desk {
    let rule = anticip_controls::LastMoment {
        lead_ms: 100.0,
        sure: 0.95,
    };
    let trigger = Trigger::new([0.4, 0.9], [0.0, 0.0], (0.8, 5), 200.0, Some(rule));
    Desk::new([Smoothing::None; PARAMETER_COUNT], SILENCE, NEUTRAL, trigger)
}

fn beat(bin: usize) -> ModelOutputWithLeads<'static> {
    let mut frame = model_output(0.5, 0.0);
    let mut row = vec![0.0; 25];
    row[bin] = 0.6;
    frame.hazards[0] = row.leak();
    frame
}

#[test]
fn of_two_beats_the_one_that_is_meant_is_called_off() {
    let mut desk = beats();
    let (_, first) = play(&mut desk, &beat(9));
    assert_eq!(first.len(), 1);
    assert!((first[0].ahead - 0.2).abs() < 1e-9);
    let (_, off) = play(&mut desk, &beat(24));
    assert!(
        off.len() == 1 && off[0].cancelled && (off[0].ahead - 0.18).abs() < 1e-9,
        "{off:?}"
    );
    // It is not cancelled again when a panic stops everything.
    desk.set_mode(Mode::Panic);
    let (_, events) = play(&mut desk, &model_output(0.5, 0.0));
    assert!(events.is_empty());
}

#[test]
fn what_was_played_or_never_announced_is_not_called_off() {
    // There is no model output while the beat passes.
    let mut desk = beats();
    let (_, first) = play(&mut desk, &beat(9));
    assert_eq!(first.len(), 1);
    for _ in 0..20 {
        assert!(desk.play(None, &[0.5; 7], None, 1.0, DT).1.is_empty());
    }
    assert!(play(&mut desk, &model_output(0.5, 0.0)).1.is_empty());
    // Frozen when it would be announced, playing again before it is cancelled.
    let mut desk = beats();
    desk.set_mode(Mode::Frozen);
    assert!(play(&mut desk, &beat(9)).1.is_empty());
    desk.set_mode(Mode::Playing);
    assert!(play(&mut desk, &beat(24)).1.is_empty());
    // The freeze has cancelled it already.
    let mut desk = beats();
    play(&mut desk, &beat(9));
    desk.set_mode(Mode::Frozen);
    assert_eq!(play(&mut desk, &beat(8)).1.len(), 1);
    desk.set_mode(Mode::Playing);
    assert!(play(&mut desk, &beat(24)).1.is_empty());
}

#[test]
fn a_loudness_that_is_no_number_is_held_at_any_gain() {
    let mut desk = desk();
    desk.set_mapping(vec![Some(LOUDNESS)], Vec::new(), &[], &[]);
    desk.gain = 0.5;
    let before = desk.play(None, &[0.5; 7], Some(&[0.1]), 1.0, DT).0[LOUDNESS];
    let after = desk.play(None, &[0.5; 7], Some(&[f64::NAN]), 1.0, DT).0[LOUDNESS];
    assert!((after - before).abs() < 1e-9, "{before} {after}");
}

#[test]
fn a_gate_that_stays_shut_is_waited_for_no_longer_than_told() {
    let mut rule = Trigger::new([0.5, 0.9], [0.0; 2], (0.8, 5), 200.0, None);
    // Frames so far apart that earlier announcements have passed.
    let mut announces = |gate| !rule.step([&[0.9; 25], &[0.0; 25]], gate, 0.0, 1.0).is_empty();
    let announced: Vec<bool> = (0..12).map(|_| announces(0.0)).collect();
    assert_eq!(announced, (0..12).map(|n| n % 6 == 5).collect::<Vec<_>>());
    assert!(announces(0.81));
}

#[test]
fn a_shape_rounds_half_to_even_as_it_always_did() {
    let shape = Shape {
        span: (0.0, 1.0),
        invert: false,
        threshold: None,
        hysteresis: 0.05,
        toggle: false,
        steps: Some(3),
    };
    let mut shaper = Shaper::new(shape);
    assert_eq!(
        [0.25, 0.26, 0.75, 0.74].map(|v| shaper.shape(v)),
        [0.0, 0.5, 1.0, 0.5]
    );
}
