//! Descriptors of a piece of sound: level, brightness, roughness, pitch, suddenness of its onset (Peeters
//! 2004).

use core::ops::Range;

use realfft::RealFftPlanner;
use realfft::num_complex::Complex;

use super::Piece;

/// Minimum length of a piece, seconds; rounded up to a power of two samples.
const MIN_LENGTH_S: f32 = 0.05;
/// Minimum level of a piece relative to the loudest piece of its sound (-60 dB).
const MIN_RELATIVE_LEVEL: f32 = 1e-3;
/// Minimum level of a piece (-80 dB): the dither of a silent 16-bit file is at -93 dB.
const MIN_LEVEL: f32 = 1e-4;
/// Pieces that a grain may extend over; the gain is limited so that none of them becomes too loud.
const REACH: usize = 5;
/// Minimum autocorrelation for a piece to have a pitch.
const MIN_PERIODICITY: f32 = 0.7;
/// Block length, in samples, for detecting rises in level.
const BLOCK: usize = 128;

/// Perceptual weight of a frequency as power, about 1 at 1 kHz (ITU-R BS.1770: a high-pass and a 4 dB shelf).
fn weight(f: f32) -> f32 {
    let (low, high) = ((f / 50.0).powi(2), (f / 1_500.0).powi(2));
    low / (1.0 + low) * (1.0 + 2.5 * high) / (1.0 + high)
}

/// Adds the pieces of a sound, which overlap by half.
pub(super) fn pieces(sound: &[f32], range: Range<usize>, sample_rate: f32, out: &mut Vec<Piece>) {
    let length = ((MIN_LENGTH_S * sample_rate) as usize).next_power_of_two();
    let mut planner = RealFftPlanner::<f32>::new();
    let (forward, inverse) = (planner.plan_fft_forward(length), planner.plan_fft_inverse(length));
    let turn = core::f32::consts::TAU / length as f32;
    let window: Vec<f32> = (0..length).map(|i| 0.5 - 0.5 * (turn * i as f32).cos()).collect();
    let mut spectrum = forward.make_output_vec();
    let weights: Vec<f32> = (0..spectrum.len())
        .map(|k| weight(k as f32 * sample_rate / length as f32))
        .collect();
    // Autocorrelation of the window itself.
    let mut lags = window.clone();
    let autocorrelation = |spectrum: &mut [Complex<f32>], lags: &mut [f32]| {
        spectrum
            .iter_mut()
            .for_each(|x| *x = Complex::new(x.norm_sqr(), 0.0));
        // The lengths always match the plan.
        let _ = inverse.process(spectrum, lags);
    };
    let mut window_lags = vec![0.0; length];
    let _ = forward.process(&mut lags, &mut spectrum);
    autocorrelation(&mut spectrum, &mut window_lags);
    let first = out.len();
    let mut levels = Vec::new();
    let mut starts: Vec<usize> = (range.start..range.end).step_by(length / 2).collect();
    starts.retain(|start| *start == range.start || start + length <= range.end);
    let mut frame = vec![0.0; length];
    for start in starts {
        let end = (start + length).min(range.end);
        frame.fill(0.0);
        for ((x, y), w) in frame.iter_mut().zip(&sound[start..end]).zip(&window) {
            *x = y * w;
        }
        let _ = forward.process(&mut frame, &mut spectrum);
        let (mut weighted_power, mut sum, mut moment, mut logs, mut power) =
            (0.0, 0.0, 0.0, 0.0_f32, 0.0_f32);
        let bin = sample_rate / length as f32;
        let (low, high) = (
            (50.0 / bin) as usize + 1,
            ((10_000.0 / bin) as usize).min(spectrum.len() - 1),
        );
        for (k, (x, w)) in spectrum.iter().zip(&weights).enumerate().skip(1) {
            let p = x.norm_sqr();
            weighted_power += p * w;
            let magnitude = p.sqrt();
            sum += magnitude;
            moment += magnitude * k as f32 * bin;
            if (low..high).contains(&k) {
                power += p;
                logs += (p + 1e-12).ln();
            }
        }
        let count = (high - low).max(1) as f32;
        // By Parseval's theorem; the mean square of a Hann window is 3/8.
        let level = (2.0 * weighted_power / (0.375 * (length * length) as f32)).sqrt();
        autocorrelation(&mut spectrum, &mut lags);
        levels.push(level);
        out.push(Piece {
            start,
            end: range.end,
            onset: start,
            onset_rise: 0.0,
            gain: 0.0,
            centroid: moment / sum.max(1e-12),
            flatness: ((logs / count).exp() / (power / count).max(1e-12)).min(1.0),
            pitch: pitch(&lags, &window_lags, sample_rate),
        });
    }
    finish(sound, &levels, length, &mut out[first..]);
    // Pieces below the minimum level still have a gain of 0.
    let mut kept = first;
    for i in first..out.len() {
        if out[i].gain > 0.0 {
            out[kept] = out[i];
            kept += 1;
        }
    }
    out.truncate(kept);
}

/// Sets gains and onsets, which depend on neighbouring pieces.
fn finish(sound: &[f32], levels: &[f32], length: usize, pieces: &mut [Piece]) {
    let loudest = levels.iter().fold(0.0_f32, |a, b| a.max(*b));
    for (i, piece) in pieces.iter_mut().enumerate() {
        if levels[i] < MIN_LEVEL.max(MIN_RELATIVE_LEVEL * loudest) {
            continue;
        }
        let levels_reached = levels[i..(i + REACH).min(levels.len())].iter();
        piece.gain = 1.0 / levels_reached.fold(0.0_f32, |a, b| a.max(*b));
        let energy = |block: &[f32]| block.iter().map(|x| x * x).sum::<f32>();
        let end = (piece.start + length).min(piece.end);
        let mut before = energy(&sound[piece.start.saturating_sub(BLOCK)..piece.start]);
        let floor = (BLOCK as f32) * (0.01 * levels[i]).powi(2);
        for (n, block) in sound[piece.start..end].chunks_exact(BLOCK).enumerate() {
            let now = energy(block);
            let rise = 10.0 * ((now + floor) / (before + floor)).log10();
            if rise > piece.onset_rise {
                piece.onset_rise = rise;
                piece.onset = piece.start + n * BLOCK;
            }
            before = now;
        }
    }
}

/// The pitch from the first high peak of the autocorrelation, 50 to 1500 Hz.
fn pitch(lags: &[f32], own: &[f32], sample_rate: f32) -> Option<f32> {
    let max_lag = ((sample_rate / 50.0) as usize).min(lags.len() / 4);
    let min_lag = ((sample_rate / 1_500.0) as usize).max(2);
    let normalised = |lag: usize| lags[lag] / lags[0].max(1e-20) * own[0] / own[lag];
    let is_peak =
        |lag: &usize| normalised(*lag) > normalised(lag - 1) && normalised(*lag) >= normalised(lag + 1);
    let peaks = || (min_lag..max_lag).filter(is_peak);
    let best = peaks().map(normalised).fold(0.0_f32, f32::max);
    if best < MIN_PERIODICITY {
        return None;
    }
    let lag = peaks().find(|lag| normalised(*lag) > 0.9 * best)?;
    let (a, b, c) = (normalised(lag - 1), normalised(lag), normalised(lag + 1));
    let shift = 0.5 * (a - c) / (a - 2.0 * b + c).min(-1e-9);
    Some(sample_rate / (lag as f32 + shift.clamp(-0.5, 0.5)))
}

#[cfg(test)]
mod tests {
    use core::f32::consts::{FRAC_1_SQRT_2, TAU};

    use super::*;
    use crate::clock::Random;

    const RATE: f32 = 48_000.0;
    /// The power of two at or above 50 ms at 48 kHz, in samples.
    const LENGTH: usize = 4096;

    fn sine(hz: f32, amplitude: f32, length: usize) -> Vec<f32> {
        (0..length)
            .map(|i| amplitude * (TAU * hz * i as f32 / RATE).sin())
            .collect()
    }

    fn noise(length: usize) -> Vec<f32> {
        let mut random = Random::new(1);
        (0..length).map(|_| random.next() - 0.5).collect()
    }

    fn describe(sound: &[f32]) -> Vec<Piece> {
        let mut found = Vec::new();
        pieces(sound, 0..sound.len(), RATE, &mut found);
        found
    }

    fn db(ratio: f32) -> f32 {
        20.0 * ratio.log10()
    }

    #[test]
    fn pieces_overlap_by_half_and_lie_within_their_sound() {
        let sound = sine(440.0, 0.5, 5 * LENGTH);
        let mut found = Vec::new();
        pieces(&sound, LENGTH..4 * LENGTH + 9, RATE, &mut found);
        let starts: Vec<usize> = found.iter().map(|piece| piece.start).collect();
        assert_eq!(starts, [2, 3, 4, 5, 6].map(|half| half * LENGTH / 2));
        assert!(found.iter().all(|piece| piece.end == 4 * LENGTH + 9));
        // A sound shorter than a piece is one piece.
        assert_eq!(describe(&sound[..LENGTH / 3]).len(), 1);
    }

    #[test]
    fn a_tone_is_where_it_is_and_smooth() {
        for hz in [60.0, 110.0, 443.0, 1_000.0, 1_400.0] {
            for piece in describe(&sine(hz, 0.3, 2 * LENGTH)) {
                let pitch = piece.pitch.unwrap();
                assert!((pitch / hz - 1.0).abs() < 0.003, "{hz}: {pitch}");
                assert!((piece.centroid - hz).abs() < 15.0, "{hz}: {}", piece.centroid);
                assert!(piece.flatness < 0.01, "{hz}: {}", piece.flatness);
            }
        }
        assert!(
            describe(&noise(2 * LENGTH))
                .iter()
                .all(|piece| piece.pitch.is_none())
        );
        // A tone above the pitch range gets the pitch of a lower octave, or none.
        for hz in [1_700.0, 3_000.0, 9_000.0] {
            assert!(
                describe(&sine(hz, 0.3, LENGTH))[0]
                    .pitch
                    .is_none_or(|pitch| pitch < 1_510.0)
            );
        }
        // Breath noise leaves a tone its pitch.
        let mut breathy = sine(200.0, 0.3, LENGTH);
        breathy
            .iter_mut()
            .zip(noise(LENGTH))
            .for_each(|(x, y)| *x += 0.3 * y);
        let pitch = describe(&breathy)[0].pitch.unwrap();
        assert!((12.0 * (pitch / 200.0).log2()).abs() < 1.0, "{pitch}");
    }

    #[test]
    fn many_partials_have_the_pitch_of_the_lowest() {
        let mut sound = vec![0.0; 2 * LENGTH];
        for k in 1..8 {
            for (x, y) in sound.iter_mut().zip(sine(150.0 * k as f32, 0.2, 2 * LENGTH)) {
                *x += y;
            }
        }
        let piece = describe(&sound)[1];
        assert!((piece.pitch.unwrap() / 150.0 - 1.0).abs() < 0.01);
        assert!((piece.centroid - 600.0).abs() < 20.0);
    }

    #[test]
    fn noise_is_flat_and_in_the_middle_of_the_spectrum() {
        for piece in describe(&noise(4 * LENGTH)) {
            // The power of a bin of noise is an exponential variable, whose geometric mean is e^-0.577 of its
            // mean.
            assert!((piece.flatness - 0.561).abs() < 0.05, "{}", piece.flatness);
            assert!(
                (piece.centroid / (RATE / 4.0) - 1.0).abs() < 0.05,
                "{}",
                piece.centroid
            );
        }
    }

    #[test]
    fn the_gain_undoes_the_level_as_an_ear_hears_it() {
        let gain = |hz: f32, amplitude: f32| describe(&sine(hz, amplitude, LENGTH))[0].gain;
        assert!((gain(1_000.0, 0.05) / gain(1_000.0, 0.4) - 8.0).abs() < 0.01);
        // A 1 kHz sine is about as loud as its rms; the shelf adds 4 dB; lows are attenuated.
        let level = db(1.0 / (gain(1_000.0, 0.4) * 0.4 * FRAC_1_SQRT_2));
        assert!((0.5..2.5).contains(&level), "{level}");
        let relative_to_200_hz = |hz: f32| db(gain(200.0, 0.4) / gain(hz, 0.4));
        assert!(
            (3.5..4.7).contains(&relative_to_200_hz(12_000.0)),
            "{}",
            relative_to_200_hz(12_000.0)
        );
        assert!(
            (-8.5..-5.5).contains(&relative_to_200_hz(25.0)),
            "{}",
            relative_to_200_hz(25.0)
        );
    }

    #[test]
    fn a_grain_is_no_louder_than_what_it_runs_into() {
        // 1 % level for eight half pieces, then full level.
        let mut sound = sine(1_000.0, 0.5, 8 * LENGTH);
        sound[..4 * LENGTH].iter_mut().for_each(|x| *x *= 0.01);
        let found = describe(&sound);
        let (quiet, loud) = (found[0].gain, found[10].gain);
        assert!((quiet / loud - 100.0).abs() < 1.0, "{quiet} {loud}");
        let reduced = found.iter().take_while(|piece| piece.gain > 0.9 * quiet).count();
        // A piece extends over four more; the seventh is the first with half of it in the loud part.
        assert_eq!(reduced, 7 - 4);
        assert!((found[4].gain / loud - 1.0).abs() < 0.01);
    }

    #[test]
    fn what_is_sixty_decibels_below_the_loudest_or_nearly_nothing_is_no_piece() {
        for (level, kept) in [(1.5e-3, true), (0.7e-3, false)] {
            let mut sound = sine(1_000.0, 0.5, 8 * LENGTH);
            sound[4 * LENGTH..].iter_mut().for_each(|x| *x *= level);
            let last = describe(&sound).iter().any(|piece| piece.start >= 4 * LENGTH);
            assert_eq!(last, kept, "{level}");
        }
        assert_eq!(describe(&sine(1_000.0, 2e-4, 2 * LENGTH)).len(), 3);
        assert!(describe(&sine(1_000.0, 0.5e-4, 2 * LENGTH)).is_empty());
    }

    #[test]
    fn a_strike_is_found_where_it_falls() {
        for at in [3 * LENGTH, 3 * LENGTH + 700, 3 * LENGTH + 1_999] {
            let mut sound = sine(1_000.0, 0.003, 6 * LENGTH);
            for (x, y) in sound[at..].iter_mut().zip(sine(1_000.0, 0.5, 3 * LENGTH)) {
                *x += y;
            }
            let found = describe(&sound);
            let piece = found
                .iter()
                .max_by(|a, b| a.onset_rise.total_cmp(&b.onset_rise))
                .unwrap();
            assert!(piece.onset.abs_diff(at) <= BLOCK, "{at}: {}", piece.onset);
            // The ratio of 0.5 to 0.003, reduced by the floor.
            assert!((30.0..45.0).contains(&piece.onset_rise), "{}", piece.onset_rise);
            // Without an onset there is no rise.
            assert!(
                found
                    .iter()
                    .filter(|p| p.start > at + BLOCK)
                    .all(|p| p.onset_rise < 1.0)
            );
        }
    }
}
