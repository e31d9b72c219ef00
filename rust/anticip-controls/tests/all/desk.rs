//! The desk with a still body, with missing frames and with gaps.

use crate::{DT, SILENCE};
use anticip_controls::{
    Desk, HORIZONS_MS, LOUDNESS, Mode, ModelOutputWithLeads, NEUTRAL, PARAMETER_COUNT, Presence, Smoothing,
    Trigger,
};

/// A desk without smoothing.
fn desk() -> Desk {
    let rule = Trigger::new([0.5, 0.2], [0.12, 1.0], (0.8, 5), 200.0, None);
    Desk::new([Smoothing::None; PARAMETER_COUNT], SILENCE, NEUTRAL, rule)
}

/// Model output that forecasts a fall of every parameter from 0.8 to 0 within 400 ms.
fn falling(lead_ms: f64) -> ModelOutputWithLeads<'static> {
    ModelOutputWithLeads {
        forecast: [HORIZONS_MS.map(|ms| 0.8 * (1.0 - ms / 400.0)); PARAMETER_COUNT],
        hazards: [&[0.0; 25]; 2],
        gate: 1.0,
        leads_ms: [lead_ms; PARAMETER_COUNT],
        event_lead_ms: lead_ms,
        reaches: &[],
    }
}

fn assert_near(actual: f64, expected: f64) {
    assert!((actual - expected).abs() < 1e-12, "{actual}, expected {expected}");
}

#[test]
fn who_stands_still_is_silent_but_for_what_is_taught() {
    for activity in [0.0, 0.25, 1.0] {
        let mut desk = desk();
        let (values, _) = desk.play(Some(&falling(0.0)), &[0.5; 7], None, activity, DT);
        assert_near(values[LOUDNESS], 0.8 * activity);
        assert_near(values[LOUDNESS + 1], 0.8);
        let (values, _) = desk.bridge(Some(&falling(0.0)), 0.1, DT);
        assert_near(values[LOUDNESS], 0.6 * activity);
        assert_near(values[LOUDNESS + 1], 0.6);
    }
    let mut taught = desk();
    taught.set_mapping(vec![Some(LOUDNESS)], Vec::new(), &[], &[]);
    let (values, _) = taught.play(Some(&falling(0.0)), &[0.5; 7], Some(&[0.6]), 0.0, DT);
    assert_near(values[LOUDNESS], 0.6);
}

#[test]
fn a_frame_that_does_not_come_is_what_was_foreseen_of_it() {
    for lead in [0.0, 100.0] {
        let forecast = |away: f64| 0.8 * (1.0 - (lead + 1000.0 * away) / 400.0).max(0.0);
        for away in [0.02, 0.1, 0.25, 0.4, 1.0] {
            let mut desk = desk();
            let output = falling(lead);
            desk.play(Some(&output), &[0.5; 7], None, 1.0, DT);
            let (values, _) = desk.bridge(Some(&output), away, DT);
            assert_near(values[0], forecast(away));
            let (held, _) = desk.bridge(None, away, DT);
            assert_near(held[0], forecast(0.0));
        }
    }
}

#[test]
fn what_is_longer_than_a_tenth_of_a_second_is_eased_over() {
    for (dt, eases) in [(0.1, false), (0.101, true)] {
        let mut presence = Presence::new(SILENCE, &NEUTRAL);
        presence.live(&mut [0.2; 8], DT);
        let mut values = [0.9; 8];
        presence.live(&mut values, dt);
        assert_eq!(values[0] < 0.9, eases, "{dt}: {}", values[0]);
    }
}

#[test]
fn what_was_not_heard_is_eased_over_from_what_was() {
    for silent in [false, true] {
        let mut desk = desk();
        desk.set_mapping(vec![None], vec![Smoothing::None], &[0.0], &[0.0]);
        let next = |desk: &mut Desk| {
            if silent {
                return desk.silence(DT)[1];
            }
            desk.play(Some(&falling(0.0)), &[0.5; 7], Some(&[0.9]), 1.0, DT).0[1]
        };
        let goal = (0..30).map(|_| next(&mut desk)).last().expect("thirty");
        let extra = desk.extras()[0];
        desk.resume(&[0.3; PARAMETER_COUNT], &[0.1]);
        let mut before = 0.3;
        for n in 0..21 {
            let value = next(&mut desk);
            assert!((value - before).abs() < 0.06, "{silent} {n}: {before} to {value}");
            if n == 0 {
                assert!((desk.extras()[0] - 0.1).abs() < 0.06);
            }
            before = value;
        }
        assert_near(before, goal);
        assert_near(desk.extras()[0], extra);
        // A freeze holds the values last sent.
        desk.resume(&[0.2; PARAMETER_COUNT], &[]);
        desk.set_mode(Mode::Frozen);
        assert_near(next(&mut desk), 0.2);
    }
}
