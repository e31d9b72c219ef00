//! What must hold of the voice, whatever it is told.

use crate::support::settings;
use anticip_synth::{CEILING, PRESETS, SynthError, Voice};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Act {
    Set(usize, f32),
    Event(usize, f32, f64),
    Limb(usize, [f32; 3]),
    Fade(f32, f64),
    Preset(usize),
    Render(usize),
}

fn value() -> impl Strategy<Value = f32> {
    prop_oneof![
        4 => 0.0_f32..=1.0,
        1 => Just(0.0),
        1 => Just(1.0),
        1 => any::<f32>(),
        1 => prop_oneof![Just(f32::NAN), Just(f32::INFINITY), Just(f32::NEG_INFINITY), Just(1e-42)],
    ]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0_usize..8, value()).prop_map(|(i, v)| Act::Set(i, v)),
        2 => (0_usize..2, value(), 0.0_f64..0.2).prop_map(|(e, v, s)| Act::Event(e, v, s)),
        2 => (0_usize..4, [value(), value(), value()]).prop_map(|(i, v)| Act::Limb(i, v)),
        1 => (value(), 0.0_f64..0.5).prop_map(|(v, s)| Act::Fade(v, s)),
        1 => (0..PRESETS.len()).prop_map(Act::Preset),
        4 => (0_usize..3000).prop_map(Act::Render),
    ]
}

/// Plays acts, rendering in pieces of `piece` samples where that is given.
fn play(voice: &mut Voice, acts: &[Act], piece: Option<usize>) -> Vec<f32> {
    let mut sound = Vec::new();
    for act in acts {
        match *act {
            Act::Set(i, v) => voice.set(i, v).unwrap(),
            Act::Event(e, v, s) => match voice.event(e, v, s) {
                Ok(()) | Err(SynthError::QueueFull(_)) => {}
                Err(other) => panic!("{other}"),
            },
            Act::Limb(i, [speed, height, stroke]) => voice.limb(i, speed, height, stroke).unwrap(),
            Act::Fade(v, s) => voice.fade(v, s).unwrap(),
            Act::Preset(n) => voice.preset(PRESETS[n].name).unwrap(),
            Act::Render(count) => {
                let start = sound.len();
                sound.resize(start + 2 * count, f32::NAN);
                let piece = 2 * piece.unwrap_or(count.max(1));
                for block in sound[start..].chunks_mut(piece) {
                    voice.render(block).unwrap();
                }
            }
        }
    }
    sound
}

const CALM: [f32; 8] = [0.4, 0.7, 0.5, 0.0, 0.0, 0.0, 0.5, 0.0];

fn loud(voice: &mut Voice) {
    voice.params(&[0.5, 1.0, 0.9, 0.7, 1.0, 0.8, 0.5, 0.6]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_sample_exceeds_the_ceiling(acts in prop::collection::vec(act(), 1..60), seed: u64) {
        let mut voice = Voice::with(48_000.0, &settings(seed, None)).unwrap();
        loud(&mut voice);
        for sample in play(&mut voice, &acts, None) {
            prop_assert!(sample.abs() <= CEILING);
        }
    }

    #[test]
    fn blocks_do_not_change_the_samples(
        acts in prop::collection::vec(act(), 1..30),
        odd in 1_usize..1500,
    ) {
        let mut whole = Voice::with(48_000.0, &settings(0, None)).unwrap();
        loud(&mut whole);
        let expected = play(&mut whole, &acts, None);
        for piece in [1, 64, 960, odd] {
            let mut voice = Voice::with(48_000.0, &settings(0, None)).unwrap();
            loud(&mut voice);
            prop_assert_eq!(&play(&mut voice, &acts, Some(piece)), &expected);
        }
    }

    #[test]
    fn reset_gives_a_new_voice(acts in prop::collection::vec(act(), 1..30)) {
        let mut used = Voice::with(48_000.0, &settings(5, None)).unwrap();
        loud(&mut used);
        play(&mut used, &acts, None);
        used.reset();
        let mut new = Voice::with(48_000.0, &settings(5, None)).unwrap();
        loud(&mut used);
        loud(&mut new);
        let after = [Act::Event(0, 1.0, 0.0), Act::Event(1, 1.0, 0.0), Act::Render(9000)];
        prop_assert_eq!(play(&mut used, &after, None), play(&mut new, &after, None));
    }
}

#[test]
fn all_at_once_stays_below_the_ceiling_at_every_rate() {
    for rate in [8_000.0, 22_050.0, 44_100.0, 96_000.0, 192_000.0] {
        let mut voice = Voice::new(rate).unwrap();
        voice.params(&[1.0; 8]);
        let mut block = vec![0.0; 2000];
        let mut peak = 0.0_f32;
        for n in 0..100 {
            voice.event(n % 2, 1.0, 0.0).unwrap();
            voice.render(&mut block).unwrap();
            peak = block.iter().fold(peak, |p, x| p.max(x.abs()));
        }
        assert!(peak <= CEILING && peak > 0.5, "{rate} Hz: {peak}");
    }
}

#[test]
fn loudness_zero_dies_away_and_a_faded_voice_is_exactly_silent() {
    let mut voice = Voice::new(48_000.0).unwrap();
    loud(&mut voice);
    let mut block = vec![0.0; 2 * 48_000];
    voice.render(&mut block).unwrap();
    voice.set(1, 0.0).unwrap();
    for _ in 0..12 {
        voice.render(&mut block).unwrap();
    }
    assert!(block.iter().all(|x| x.abs() < 1e-4), "the tail is below -80 dBFS");
    loud(&mut voice);
    voice.render(&mut block).unwrap();
    voice.fade(0.0, 0.5).unwrap();
    voice.render(&mut block).unwrap();
    voice.render(&mut block).unwrap();
    assert!(block.iter().all(|x| *x == 0.0));
    voice.gain(1.0);
    voice.render(&mut block).unwrap();
    assert!(block.iter().any(|x| x.abs() > 0.05));
}

/// Whether a number too small to be normal has been computed with since this was asked last, which takes as long as a
/// hundred others: the processor's own flag, which stays set.
#[cfg(target_arch = "x86_64")]
fn met_denormals() -> bool {
    const MET: u32 = 2;
    let mut flags = 0_u32;
    // SAFETY: only the flags of what happened are cleared; how numbers are computed stays as it is.
    unsafe {
        core::arch::asm!("stmxcsr [{}]", in(reg) &raw mut flags);
        core::arch::asm!("ldmxcsr [{}]", in(reg) &(flags & !MET));
    }
    flags & MET != 0
}

/// The first preset meets a few in nearly every frame, however loud it is.
#[cfg(target_arch = "x86_64")]
#[test]
fn what_dies_away_does_not_become_slow() {
    for preset in &PRESETS[1..] {
        let mut voice = Voice::with(48_000.0, &settings(0, Some(preset.name))).unwrap();
        voice.params(&CALM);
        voice.event(0, 1.0, 0.0).unwrap();
        voice.event(1, 1.0, 0.0).unwrap();
        let mut block = vec![0.0; 2 * 48_000];
        met_denormals();
        // What an onset lifts takes 11 s to fall so far, what a phrase does two minutes.
        for second in 0..if preset.name == "duo" { 130 } else { 15 } {
            voice.render(&mut block).unwrap();
            assert!(!met_denormals(), "{} after {second} s", preset.name);
        }
    }
}

#[test]
fn an_onset_of_what_sounds_on_is_louder_at_once_and_no_hole() {
    for preset in ["bowed", "choir", "duo"] {
        // Levels of 5 ms each, dB, from the moment at which the onset is due.
        let levels = |ahead: f64| -> Vec<f32> {
            let mut voice = Voice::with(48_000.0, &settings(0, Some(preset))).unwrap();
            voice.params(&CALM);
            let mut block = vec![0.0; 2 * (48_000 + 95)];
            voice.render(&mut block).unwrap();
            voice.event(0, 1.0, ahead).unwrap();
            voice.render(&mut block[..2 * 4_800]).unwrap();
            let windows = block[..2 * 4_800].as_chunks::<480>().0.iter();
            windows
                .map(|x| 10.0 * x.iter().map(|x| x * x).sum::<f32>().log10())
                .collect()
        };
        let (struck, plain) = (levels(0.0), levels(30.0));
        let rise: Vec<f32> = struck.iter().zip(&plain).map(|(a, b)| a - b).collect();
        assert!(rise[..16].iter().all(|x| *x > -4.0), "{preset}: {rise:.1?}");
        assert!(rise[3] > 3.0, "{preset}: {rise:.1?}");
    }
}

#[test]
fn what_is_no_number_is_ignored_and_counted() {
    let mut told = Voice::new(48_000.0).unwrap();
    let mut left = Voice::new(48_000.0).unwrap();
    loud(&mut told);
    loud(&mut left);
    for index in 0..8 {
        told.set(index, f32::NAN).unwrap();
        told.set(index, f32::NEG_INFINITY).unwrap();
    }
    told.event(0, f32::NAN, 0.0).unwrap();
    told.fade(f32::NAN, 0.1).unwrap();
    assert_eq!(told.ignored(), 18);
    let render = [Act::Render(5000)];
    assert_eq!(play(&mut told, &render, None), play(&mut left, &render, None));
}

#[test]
fn a_preset_that_is_switched_to_plays_as_if_it_had_been_first() {
    let mut switched = Voice::new(48_000.0).unwrap();
    let mut first = Voice::with(48_000.0, &settings(0, Some("drone"))).unwrap();
    assert_eq!(first.render(&mut [0.0; 3]), Err(SynthError::Block(3)));
    switched.preset("drone").unwrap();
    let (mut a, mut b) = (vec![0.0; 96_000], vec![0.0; 96_000]);
    for voice in [&mut switched, &mut first] {
        loud(voice);
    }
    for _ in 0..4 {
        switched.render(&mut a).unwrap();
        first.render(&mut b).unwrap();
    }
    let apart = a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(apart < 0.05, "{apart}");
}

#[test]
fn what_plays_samples_is_refused_where_there_are_none() {
    let mut voice = Voice::new(48_000.0).unwrap();
    assert_eq!(voice.preset("granular"), Err(SynthError::NoSamples));
    let mut with = settings(0, None);
    assert!(Voice::with(44_100.0, &with).is_err(), "they are of another rate");
    (with.samples, with.preset) = (None, Some("granular".to_owned()));
    assert!(matches!(Voice::with(48_000.0, &with), Err(SynthError::NoSamples)));
}

/// Level of left and right over a second, dB, while one limb does something and the rest rest.
fn sides(preset: &str, params: [f32; 8], limb: usize, stroke: f32) -> [f32; 2] {
    let mut voice = Voice::with(48_000.0, &settings(0, Some(preset))).unwrap();
    voice.params(&params);
    let mut block = vec![0.0; 2 * 960];
    let mut power = [1e-12_f32; 2];
    for n in 0..50 {
        for other in 0..4 {
            let speed = if other == limb { 0.8 } else { 0.0 };
            let struck = if other == limb && n % 10 == 0 { stroke } else { 0.0 };
            voice.limb(other, speed, 0.5, struck).unwrap();
        }
        voice.render(&mut block).unwrap();
        for pair in block.as_chunks::<2>().0 {
            power = [power[0] + pair[0] * pair[0], power[1] + pair[1] * pair[1]];
        }
    }
    power.map(|p| 10.0 * (p / 48_000.0).log10())
}

#[test]
fn each_half_of_the_body_plays_its_voice_and_each_limb_its_drum() {
    for (limb, side) in [(0, 0), (1, 1), (2, 0), (3, 1)] {
        let heard = sides("duo", CALM, limb, 0.0);
        assert!(heard[side] > heard[1 - side] + 6.0, "duo {limb}: {heard:?}");
        let (struck, resting) = (sides("limbs", CALM, limb, 0.8), sides("limbs", CALM, limb, 0.0));
        assert!(struck[side] > struck[1 - side], "limbs {limb}: {struck:?}");
        assert!(struck[side] > resting[side] + 40.0, "limbs {limb}: {resting:?}");
    }
}

#[test]
fn the_grains_of_the_glass_are_the_higher_the_higher_either_hand_is_held() {
    let edges = |heights: [f32; 2]| {
        let mut voice = Voice::with(48_000.0, &settings(0, Some("glass"))).unwrap();
        voice.params(&CALM);
        for (hand, height) in heights.into_iter().enumerate() {
            voice.limb(hand, 0.5, height, 0.0).unwrap();
        }
        let mut block = vec![0.0; 2 * 3 * 48_000];
        voice.render(&mut block).unwrap();
        let rise: f32 = block.windows(3).map(|x| (x[2] - x[0]).powi(2)).sum();
        10.0 * (rise / block.iter().map(|x| x * x).sum::<f32>()).log10()
    };
    let [low, left, right, both] = [[0.0; 2], [0.6, 0.0], [0.0, 0.6], [0.6; 2]].map(edges);
    assert!(
        left > low + 2.0 && right > low + 2.0 && both > left.max(right),
        "{low} {left} {right} {both}"
    );
}

#[test]
fn the_two_of_the_duo_are_about_as_loud_as_each_other_on_every_note() {
    let mut least = [0.0_f32; 2];
    let mut most = [-99.0_f32; 2];
    for pitch in [0.0, 0.2, 0.4, 0.6, 0.8] {
        for brightness in [0.2, 0.5, 0.8] {
            let mut params = CALM;
            (params[0], params[2]) = (pitch, brightness);
            for side in 0..2 {
                let heard = sides("duo", params, side, 0.0)[side];
                least[side] = least[side].min(heard);
                most[side] = most[side].max(heard);
            }
        }
    }
    let (low, high) = (least[0].min(least[1]), most[0].max(most[1]));
    assert!(high - low < 4.0, "{least:?} to {most:?}");
}

#[test]
fn the_drums_are_about_as_loud_at_every_pitch() {
    let level = |pitch: f32| {
        let mut voice = Voice::with(48_000.0, &settings(0, Some("drums"))).unwrap();
        voice.params(&[pitch, 0.7, 0.5, 0.0, 0.5, 0.0, 0.5, 0.2]);
        let mut block = vec![0.0; 2 * 5 * 48_000];
        voice.render(&mut block).unwrap();
        // The ear has little for what is low.
        let heard = block.windows(3).map(|x| (x[2] - x[0]).powi(2)).sum::<f32>();
        10.0 * heard.log10()
    };
    let levels = [0.05, 0.35, 0.65, 0.95].map(level);
    let most = levels.iter().fold(-99.0_f32, |a, b| a.max(*b));
    let least = levels.iter().fold(99.0_f32, |a, b| a.min(*b));
    assert!(most - least < 7.0, "{levels:.1?}");
}

#[test]
fn nothing_constant_is_played() {
    for preset in ["bowed", "choir"] {
        for pitch in [0.3, 0.5] {
            let mut voice = Voice::with(48_000.0, &settings(0, Some(preset))).unwrap();
            voice.params(&[pitch, 1.0, 0.2, 0.5, 0.3, 0.0, 0.5, 0.0]);
            let mut block = vec![0.0; 2 * 96_000];
            voice.render(&mut block).unwrap();
            voice.render(&mut block).unwrap();
            let mean = block.iter().map(|x| f64::from(*x)).sum::<f64>() / block.len() as f64;
            assert!(mean.abs() < 2e-3, "{preset}: {mean}");
        }
    }
}
