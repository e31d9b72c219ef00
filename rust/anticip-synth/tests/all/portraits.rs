//! What each preset sounds like, measured: a change that nobody meant is told from one that somebody did.

use crate::support::settings;
use anticip_synth::{PRESETS, Voice};

/// Levels (dB) of left and right, and how bright it is (dB of its differences over it), of half a second.
type Stretch = [f32; 3];

/// Two seconds: a calm half, then a lively one to the left; strokes, a beat of 112 a minute, all limbs.
fn portrait(preset: &str) -> [Stretch; 4] {
    let mut voice = Voice::with(48_000.0, &settings(1, Some(preset))).unwrap();
    let mut block = [0.0; 2 * 960];
    let mut before = [0.0; 2];
    core::array::from_fn(|half| {
        voice.params(if half < 2 {
            &[0.3, 0.6, 0.3, 0.1, 0.4, 0.3, 0.5, 0.3]
        } else {
            &[0.65, 0.85, 0.75, 0.7, 0.8, 0.7, 0.25, 0.8]
        });
        voice.event(0, 0.8, 0.2).unwrap();
        if half % 2 == 1 {
            voice.event(1, 0.7, 0.1).unwrap();
        }
        let (mut power, mut edges) = ([1e-12_f32; 2], 1e-12_f32);
        for n in 0..25 {
            let beats = (half * 25 + n) as f32 * 0.02 * 112.0 / 60.0;
            voice.tempo(112.0, beats.fract());
            for limb in 0..4 {
                let stroke = if (n + 6 * limb).is_multiple_of(12) {
                    0.7
                } else {
                    0.0
                };
                voice
                    .limb(limb, 0.3 + 0.15 * limb as f32, 0.2 + 0.2 * half as f32, stroke)
                    .unwrap();
            }
            voice.render(&mut block).unwrap();
            for pair in block.as_chunks::<2>().0 {
                for side in 0..2 {
                    power[side] += pair[side] * pair[side];
                    edges += (pair[side] - before[side]).powi(2);
                }
                before = *pair;
            }
        }
        let decibels = |power: f32| 10.0 * power.log10();
        let [left, right] = power.map(|power| decibels(power / 24_000.0));
        [left, right, decibels(edges / (power[0] + power[1]))]
    })
}

#[rustfmt::skip]
const PORTRAITS: &[(&str, [Stretch; 4])] = &[
    ("default", [[-24.2, -22.7, -20.6], [-22.5, -22.1, -21.6], [-13.8, -20.1, -13.5], [-13.2, -19.2, -14.1]]),
    ("plucked", [[-24.1, -22.6, -12.4], [-19.0, -19.9, -14.9], [-12.5, -18.5, -10.0], [-13.2, -19.4, -9.2]]),
    ("bowed", [[-23.8, -23.7, -21.3], [-23.3, -23.3, -19.8], [-15.8, -23.7, -7.5], [-16.2, -23.1, -7.3]]),
    ("choir", [[-26.3, -23.9, -22.6], [-25.0, -24.5, -22.8], [-15.1, -20.7, -13.3], [-16.2, -21.3, -13.2]]),
    ("drone", [[-28.7, -29.5, -17.4], [-25.6, -25.7, -15.7], [-16.9, -23.4, -12.4], [-15.9, -24.2, -9.6]]),
    ("bells", [[-30.2, -28.4, -17.1], [-28.5, -27.7, -17.3], [-14.4, -20.6, -11.6], [-15.6, -20.5, -12.3]]),
    ("drums", [[-24.4, -24.3, -19.4], [-21.4, -21.1, -17.2], [-13.8, -21.5, -2.2], [-12.8, -20.7, -1.2]]),
    ("glass", [[-28.6, -27.3, -10.1], [-24.2, -23.0, -8.1], [-15.2, -21.5, -0.8], [-13.0, -20.0, 0.7]]),
    ("limbs", [[-19.0, -20.3, -30.4], [-17.1, -18.4, -30.7], [-12.0, -19.0, -23.6], [-12.0, -18.7, -23.7]]),
    ("duo", [[-29.9, -24.5, -23.9], [-24.8, -23.7, -22.8], [-17.7, -20.8, -11.7], [-17.3, -21.3, -7.9]]),
    ("granular", [[-19.5, -19.8, -18.8], [-18.0, -18.1, -18.8], [-16.0, -22.2, -3.3], [-15.8, -22.8, -3.2]]),
];

#[test]
fn every_preset_sounds_as_it_did() {
    let heard: Vec<_> = PRESETS
        .iter()
        .map(|preset| (preset.name, portrait(preset.name)))
        .collect();
    let near = |a: &[Stretch; 4], b: &[Stretch; 4]| {
        a.as_flattened()
            .iter()
            .zip(b.as_flattened())
            .all(|(a, b)| (a - b).abs() < 0.3)
    };
    let same = heard.len() == PORTRAITS.len()
        && heard
            .iter()
            .zip(PORTRAITS)
            .all(|(a, b)| a.0 == b.0 && near(&a.1, &b.1));
    assert!(
        same,
        "where it was meant, these are the portraits now: {heard:.1?}"
    );
}
