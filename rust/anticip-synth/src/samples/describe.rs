//! How a piece of a sound sounds: level, brightness, roughness, pitch, how suddenly it begins (Peeters 2004).

use core::ops::Range;

use realfft::RealFftPlanner;
use realfft::num_complex::Complex;

use super::Piece;

/// Length of a piece, seconds; the next power of two samples.
const LENGTH: f32 = 0.05;
/// What is quieter than the loudest piece of its sound by so much is no piece (-60 dB), nor what is quieter than
/// this at all (-100 dB).
const QUIET: f32 = 1e-3;
const SILENT: f32 = 1e-5;
/// Pieces over which a grain that begins here may reach: none of them becomes too loud.
const REACH: usize = 5;
/// Self-similarity from which a piece has a pitch.
const PITCHED: f32 = 0.7;
/// Samples over which a rise is looked for.
const RISE: usize = 128;

/// How loud a frequency is beside 1 kHz, as power: the ear's in ITU-R BS.1770, a high-pass and a shelf of 4 dB.
fn weight(f: f32) -> f32 {
    let (low, high) = ((f / 50.0).powi(2), (f / 1_500.0).powi(2));
    low / (1.0 + low) * (1.0 + 2.5 * high) / (1.0 + high)
}

/// Adds the pieces of a sound, half overlapping.
pub(super) fn pieces(sound: &[f32], range: Range<usize>, sample_rate: f32, out: &mut Vec<Piece>) {
    let length = ((LENGTH * sample_rate) as usize).next_power_of_two();
    let mut planner = RealFftPlanner::<f32>::new();
    let (forward, inverse) = (planner.plan_fft_forward(length), planner.plan_fft_inverse(length));
    let turn = core::f32::consts::TAU / length as f32;
    let window: Vec<f32> = (0..length).map(|i| 0.5 - 0.5 * (turn * i as f32).cos()).collect();
    let mut spectrum = forward.make_output_vec();
    let weights: Vec<f32> = (0..spectrum.len())
        .map(|k| weight(k as f32 * sample_rate / length as f32))
        .collect();
    // What the window itself has of self-similarity.
    let mut lags = window.clone();
    let similar = |spectrum: &mut [Complex<f32>], lags: &mut [f32]| {
        spectrum
            .iter_mut()
            .for_each(|x| *x = Complex::new(x.norm_sqr(), 0.0));
        // Their lengths are the plan's own.
        let _ = inverse.process(spectrum, lags);
    };
    let mut own = vec![0.0; length];
    let _ = forward.process(&mut lags, &mut spectrum);
    similar(&mut spectrum, &mut own);
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
        let (mut heard, mut sum, mut moment, mut logs, mut power) = (0.0, 0.0, 0.0, 0.0_f32, 0.0_f32);
        let bin = sample_rate / length as f32;
        let (low, high) = (
            (50.0 / bin) as usize + 1,
            ((10_000.0 / bin) as usize).min(spectrum.len() - 1),
        );
        for (k, (x, w)) in spectrum.iter().zip(&weights).enumerate().skip(1) {
            let p = x.norm_sqr();
            heard += p * w;
            let magnitude = p.sqrt();
            sum += magnitude;
            moment += magnitude * k as f32 * bin;
            if (low..high).contains(&k) {
                power += p;
                logs += (p + 1e-12).ln();
            }
        }
        let count = (high - low).max(1) as f32;
        // By Parseval, of a Hann window whose mean square is 3/8.
        let level = (2.0 * heard / (0.375 * (length * length) as f32)).sqrt();
        similar(&mut spectrum, &mut lags);
        levels.push(level);
        out.push(Piece {
            start,
            end: range.end,
            strike: start,
            rise: 0.0,
            gain: 0.0,
            centroid: moment / sum.max(1e-12),
            flatness: ((logs / count).exp() / (power / count).max(1e-12)).min(1.0),
            pitch: pitch(&lags, &own, sample_rate),
        });
    }
    finish(sound, &levels, length, &mut out[first..]);
    // Their gain was left at zero.
    let mut kept = first;
    for i in first..out.len() {
        if out[i].gain > 0.0 {
            out[kept] = out[i];
            kept += 1;
        }
    }
    out.truncate(kept);
}

/// Gains and strikes, which need the pieces around.
fn finish(sound: &[f32], levels: &[f32], length: usize, pieces: &mut [Piece]) {
    let loudest = levels.iter().fold(0.0_f32, |a, b| a.max(*b));
    for (i, piece) in pieces.iter_mut().enumerate() {
        if levels[i] < SILENT.max(QUIET * loudest) {
            continue;
        }
        let reached = levels[i..(i + REACH).min(levels.len())].iter();
        piece.gain = 1.0 / reached.fold(0.0_f32, |a, b| a.max(*b));
        let energy = |block: &[f32]| block.iter().map(|x| x * x).sum::<f32>();
        let end = (piece.start + length).min(piece.end);
        let mut before = energy(&sound[piece.start.saturating_sub(RISE)..piece.start]);
        let floor = (RISE as f32) * (0.01 * levels[i]).powi(2);
        for (n, block) in sound[piece.start..end].chunks_exact(RISE).enumerate() {
            let now = energy(block);
            let rise = 10.0 * ((now + floor) / (before + floor)).log10();
            if rise > piece.rise {
                piece.rise = rise;
                piece.strike = piece.start + n * RISE;
            }
            before = now;
        }
    }
}

/// The lag of the first high peak of self-similarity, as a frequency from 50 to 1500 Hz.
fn pitch(lags: &[f32], own: &[f32], sample_rate: f32) -> Option<f32> {
    let longest = ((sample_rate / 50.0) as usize).min(lags.len() / 4);
    let shortest = ((sample_rate / 1_500.0) as usize).max(2);
    let like = |lag: usize| lags[lag] / lags[0].max(1e-20) * own[0] / own[lag];
    let is_peak = |lag: &usize| like(*lag) > like(lag - 1) && like(*lag) >= like(lag + 1);
    let peaks = || (shortest..longest).filter(is_peak);
    let best = peaks().map(like).fold(0.0_f32, f32::max);
    if best < PITCHED {
        return None;
    }
    let lag = peaks().find(|lag| like(*lag) > 0.9 * best)?;
    let (a, b, c) = (like(lag - 1), like(lag), like(lag + 1));
    let shift = 0.5 * (a - c) / (a - 2.0 * b + c).min(-1e-9);
    Some(sample_rate / (lag as f32 + shift.clamp(-0.5, 0.5)))
}
