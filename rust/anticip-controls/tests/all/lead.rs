//! The automatic lead: its parts, how it changes, and that it depends only on frames and commands.

use anticip_controls::{Lead, PARAMETER_COUNT, Trust};
use proptest::collection::vec;
use proptest::prelude::*;

const NO_LAG: [f64; PARAMETER_COUNT] = [0.0; PARAMETER_COUNT];
const SPRING_MS: f64 = 24.0;
const SPRING: [f64; PARAMETER_COUNT] = [SPRING_MS; PARAMETER_COUNT];

fn automatic(lags: [f64; PARAMETER_COUNT], sound_ms: f64) -> Lead {
    Lead::new(None, lags, sound_ms, 0.0)
}

fn leads_after_step(mut lead: Lead, amount: f64, trust: Option<&Trust>) -> [f64; PARAMETER_COUNT] {
    lead.step(amount, trust);
    lead.leads()
}

fn assert_near(actual: f64, expected: f64) {
    assert!((actual - expected).abs() < 1e-9, "{actual}, expected {expected}");
}

#[test]
fn it_is_the_way_and_what_lags() {
    let plain = leads_after_step(automatic(NO_LAG, 0.0), 1.0, None);
    assert!(plain.iter().all(|lead| *lead == plain[0]));
    let lead = Lead::new(None, NO_LAG, 40.0, 25.0);
    assert_near(lead.event_lead_ms(), 65.0);
    assert_near(leads_after_step(lead, 1.0, None)[3], plain[3] + 65.0);
    assert_near(
        leads_after_step(automatic(SPRING, 0.0), 1.0, None)[3],
        plain[3] + SPRING_MS,
    );
    assert_eq!(leads_after_step(automatic(SPRING, 0.0), 0.0, None), plain);
    assert_eq!(leads_after_step(automatic(NO_LAG, 1000.0), 1.0, None), [400.0; 8]);
}

#[test]
fn what_is_told_is_kept() {
    let lead = Lead::new(Some(120.0), SPRING, 40.0, 0.0);
    assert_eq!(leads_after_step(lead, 1.0, Some(&[[0.0; 3]; 8])), [120.0; 8]);
}

#[test]
fn nothing_is_read_farther_ahead_than_there_is_skill() {
    let lead = || automatic(NO_LAG, 100.0);
    let full = leads_after_step(lead(), 1.0, Some(&[[1.0; 3]; 8]))[0];
    assert!(100.0 < full && full < 200.0);
    // Full skill 100 ms ahead, none at 200: linear between, and half of it is enough.
    let mut trust = [[0.25; 3]; 8];
    trust[0] = [1.0, 0.0, 0.0];
    let some = leads_after_step(lead(), 1.0, Some(&trust));
    assert_near(some[0], full * ((200.0 - full) / 100.0 / 0.5).min(1.0));
    assert_near(some[7], full / 2.0);
    assert_eq!(leads_after_step(lead(), 1.0, Some(&[[0.0; 3]; 8])), NO_LAG);
}

#[test]
fn the_age_of_frames_is_followed_only_when_it_has_changed() {
    let mut lead = automatic(NO_LAG, 0.0);
    let mut ways_ms: Vec<f64> = (0..1000)
        .map(|n| {
            lead.add_age(10.0 + f64::from(n % 2));
            lead.event_lead_ms()
        })
        .collect();
    assert!((ways_ms[999] - 10.5).abs() < 3.1);
    ways_ms.dedup();
    assert!(ways_ms.len() < 8);
}

#[test]
fn a_frame_is_read_ahead_from_when_it_leaves() {
    let mut fixed = Lead::new(Some(100.0), SPRING, 0.0, 0.0);
    for (age, read) in [
        (60.0, 160.0),
        (0.0, 100.0),
        (-5.0, 100.0),
        (f64::NAN, 100.0),
        (390.0, 400.0),
    ] {
        fixed.add_age(age);
        assert_eq!(fixed.leads_of_frame(), [read; PARAMETER_COUNT]);
        assert_eq!(fixed.leads(), [100.0; PARAMETER_COUNT]);
    }
    let mut lead = automatic(NO_LAG, 50.0);
    for _ in 0..1000 {
        lead.add_age(20.0);
        lead.step(1.0, None);
    }
    let average = lead.event_lead_ms() - 50.0;
    assert!(average > 10.0);
    let usual = lead.leads()[0];
    lead.set_frame_age(average + 7.0);
    assert_near(lead.leads_of_frame()[0], usual + 7.0);
    lead.set_frame_age(0.0);
    assert_near(lead.leads_of_frame()[0], usual - average);
}

#[test]
fn what_is_read_after_sending_changes_slowly_when_ages_or_the_kind_of_lead_do() {
    let mut lead = Lead::new(Some(100.0), NO_LAG, 50.0, 0.0);
    let mut before = 100.0;
    for n in 0..2000 {
        if n == 500 {
            lead.set(None);
        }
        let age = if n < 1000 { 20.0 } else { 40.0 };
        lead.add_age(age);
        let after_sending = lead.leads_of_frame()[0] - age;
        let change = after_sending - before;
        assert!(change.abs() <= 1.0 + 1e-9, "{change} in frame {n}");
        before = after_sending;
        lead.step(1.0, None);
    }
    assert_near(before, leads_after_step(automatic(NO_LAG, 50.0), 1.0, None)[0]);
}

#[test]
fn an_age_that_is_no_number_is_not_kept() {
    let mut lead = automatic(NO_LAG, 50.0);
    lead.add_age(f64::NAN);
    for _ in 0..1000 {
        lead.add_age(40.0);
    }
    assert!(lead.event_lead_ms() > 80.0);
}

proptest! {
    #[test]
    fn it_never_jumps_and_is_the_same_again(
        frames in vec((0.0..60.0, 0.0f32..1.0, prop::option::of(0.0..300.0)), 2..60)
    ) {
        let leads = || {
            let mut lead = automatic(SPRING, 0.0);
            frames.iter().map(|&(age, trust, sound)| {
                lead.add_age(age);
                lead.sound_ms = sound.unwrap_or(lead.sound_ms);
                lead.step(1.0, Some(&[[trust; 3]; 8]));
                lead.leads()
            }).collect::<Vec<_>>()
        };
        let first = leads();
        prop_assert_eq!(&leads(), &first);
        for pair in first.windows(2) {
            for (before, after) in pair[0].iter().zip(pair[1]) {
                prop_assert!((after - before).abs() <= 0.5 + 1e-9);
                prop_assert!((0.0..=400.0).contains(&after));
            }
        }
    }
}
