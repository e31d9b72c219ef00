//! Measured sound of each preset: catches unintended changes.

use crate::support::settings;
use anticip_synth::{PRESETS, Voice};

/// Left and right level in dB, and brightness (dB of the differences relative to the signal), over half a
/// second.
type Stretch = [f32; 3];

/// Two seconds: a calm half, then a lively one to the left; with onsets, a beat of 112 bpm, all limbs.
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
        let (mut power, mut difference_power) = ([1e-12_f32; 2], 1e-12_f32);
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
                    difference_power += (pair[side] - before[side]).powi(2);
                }
                before = *pair;
            }
        }
        let decibels = |power: f32| 10.0 * power.log10();
        let [left, right] = power.map(|power| decibels(power / 24_000.0));
        [left, right, decibels(difference_power / (power[0] + power[1]))]
    })
}

#[rustfmt::skip]
const PORTRAITS: &[(&str, [Stretch; 4])] = &[
    ("default", [[-24.0, -22.5, -20.6], [-22.3, -21.8, -21.6], [-13.6, -20.4, -13.4], [-13.0, -20.0, -13.7]]),
    ("plucked", [[-26.3, -24.8, -12.5], [-21.2, -22.3, -14.2], [-12.4, -20.9, -10.8], [-13.9, -21.7, -7.3]]),
    ("bowed", [[-23.6, -23.5, -21.2], [-23.1, -23.1, -19.7], [-16.1, -24.0, -7.2], [-16.5, -23.8, -6.9]]),
    ("choir", [[-23.5, -21.1, -23.0], [-21.3, -21.1, -23.0], [-14.2, -20.8, -13.9], [-15.8, -22.6, -13.2]]),
    ("drone", [[-28.5, -29.4, -17.3], [-25.5, -25.5, -15.7], [-16.6, -23.4, -12.3], [-15.7, -24.2, -9.5]]),
    ("bells", [[-27.8, -24.5, -17.3], [-28.2, -26.2, -17.8], [-13.3, -19.6, -14.0], [-13.0, -17.8, -15.6]]),
    ("drums", [[-23.8, -23.7, -21.0], [-20.4, -20.2, -20.5], [-12.1, -20.3, -6.4], [-10.6, -18.9, -7.5]]),
    ("glass", [[-32.4, -31.4, -21.9], [-26.7, -26.7, -17.1], [-16.0, -22.1, -2.9], [-14.1, -21.0, 1.4]]),
    ("limbs", [[-17.6, -17.1, -33.1], [-17.2, -17.6, -32.5], [-11.5, -18.4, -20.7], [-11.2, -19.4, -20.4]]),
    ("duo", [[-29.4, -24.5, -23.9], [-24.7, -23.4, -22.7], [-17.5, -21.1, -11.4], [-17.2, -21.8, -7.3]]),
    ("granular", [[-19.3, -19.5, -18.8], [-17.9, -17.9, -18.8], [-15.7, -22.4, -3.0], [-15.5, -23.0, -2.9]]),
];

#[test]
fn every_preset_sounds_as_it_did() {
    let measured: Vec<_> = PRESETS
        .iter()
        .map(|preset| (preset.name, portrait(preset.name)))
        .collect();
    let near = |a: &[Stretch; 4], b: &[Stretch; 4]| {
        a.as_flattened()
            .iter()
            .zip(b.as_flattened())
            .all(|(a, b)| (a - b).abs() < 0.3)
    };
    let same = measured.len() == PORTRAITS.len()
        && measured
            .iter()
            .zip(PORTRAITS)
            .all(|(a, b)| a.0 == b.0 && near(&a.1, &b.1));
    assert!(
        same,
        "where it was meant, these are the portraits now: {measured:.1?}"
    );
}
