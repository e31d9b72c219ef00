//! Plucked strings (Karplus & Strong 1983, with the tuning all-pass and the pick position of Jaffe & Smith 1983).

use crate::control::FRAME;
use crate::tone::White;

/// Strings that can sound at once.
const POOL: usize = 14;
/// Lowest note, Hz.
const LOWEST: f32 = 30.0;
/// Level below which a string has ended (-80 dB).
const END: f32 = 1e-4;

/// What a string is plucked with.
#[derive(Clone, Copy)]
pub(crate) struct Pluck {
    /// Hz.
    pub(crate) frequency: f32,
    pub(crate) amplitude: f32,
    /// Time to -60 dB of the fundamental, seconds.
    pub(crate) ring: f32,
    /// 0 a soft thumb, 1 a hard pick.
    pub(crate) hard: f32,
    /// Where, as a part of its length: at the bridge it is nasal, in its middle hollow.
    pub(crate) at: f32,
    pub(crate) weights: [f32; 2],
}

struct Sounding {
    line: Vec<f32>,
    length: usize,
    at: usize,
    /// The tuning all-pass: its coefficient and its state.
    tune: f32,
    allpass: [f32; 2],
    /// The loss of a turn: gain, share of the sample before, and that sample.
    gain: f32,
    blend: f32,
    before: f32,
    weights: [f32; 2],
    peak: f32,
    /// A string that sounds fades for one frame before it is plucked anew.
    next: Option<Pluck>,
}

pub(crate) struct Strings {
    pool: [Sounding; POOL],
    white: White,
    sample_rate: f32,
}

impl Strings {
    pub(crate) fn new(sample_rate: f64, seed: u64) -> Self {
        let longest = (sample_rate as f32 / LOWEST) as usize + 2;
        Self {
            pool: core::array::from_fn(|_| Sounding {
                line: vec![0.0; longest],
                length: 2,
                at: 0,
                tune: 0.0,
                allpass: [0.0; 2],
                gain: 0.0,
                blend: 0.0,
                before: 0.0,
                weights: [0.0; 2],
                peak: 0.0,
                next: None,
            }),
            white: White::new(seed),
            sample_rate: sample_rate as f32,
        }
    }

    pub(crate) fn reset(&mut self) {
        for string in &mut self.pool {
            string.peak = 0.0;
            string.next = None;
        }
        self.white.reset();
    }

    /// Plucks the string that sounds least.
    pub(crate) fn pluck(&mut self, pluck: Pluck) {
        let heard = |s: &Sounding| s.next.map_or(s.peak, |next| 1.0 + next.amplitude);
        let quietest = (0..POOL).fold(0, |best, i| {
            if heard(&self.pool[i]) < heard(&self.pool[best]) {
                i
            } else {
                best
            }
        });
        self.pool[quietest].next = Some(pluck);
    }

    /// Adds a frame of every sounding string.
    pub(crate) fn render(&mut self, output: &mut [[f32; 2]; FRAME]) {
        for string in &mut self.pool {
            let fading = string.next.is_some() && string.peak > 0.0;
            if !fading && let Some(pluck) = string.next.take() {
                string.begin(pluck, self.sample_rate, &mut self.white);
            }
            if string.peak <= 0.0 {
                continue;
            }
            let mut peak = 0.0_f32;
            for (i, y) in output.iter_mut().enumerate() {
                let mut x = string.step();
                if fading {
                    x *= 1.0 - (i + 1) as f32 / FRAME as f32;
                }
                peak = peak.max(x.abs());
                y[0] += x * string.weights[0];
                y[1] += x * string.weights[1];
            }
            // A low string may pass near zero for longer than a frame: the peak falls slowly.
            string.peak = peak.max(0.93 * string.peak);
            if fading || string.peak < END {
                string.peak = 0.0;
            }
        }
    }
}

impl Sounding {
    fn begin(&mut self, pluck: Pluck, sample_rate: f32, white: &mut White) {
        let frequency = pluck.frequency.clamp(LOWEST, 0.2 * sample_rate);
        let period = sample_rate / frequency;
        self.blend = 0.5 - 0.42 * pluck.hard;
        // The blend delays by its share of a sample, the all-pass by 0.2 to 1.2.
        let rest = period - self.blend;
        self.length = ((rest - 0.2).floor() as usize).clamp(2, self.line.len());
        let part = rest - self.length as f32;
        self.tune = (1.0 - part) / (1.0 + part);
        self.gain = 10.0_f32.powf(-3.0 / (pluck.ring * frequency)).min(0.9999);
        self.weights = pluck.weights;
        (self.at, self.allpass, self.before) = (0, [0.0; 2], 0.0);
        // A burst of noise, softened, less itself a pick's distance before: a plucked string's comb.
        let soft = 0.08 + 0.9 * pluck.hard;
        let comb = ((pluck.at * self.length as f32) as usize).max(1);
        let (mut low, mut sum) = (0.0, 0.0);
        for i in 0..self.length {
            low += soft * (white.next() - low);
            self.line[i] = low;
            sum += low;
        }
        let mean = sum / self.length as f32;
        let mut energy = 0.0;
        for i in (0..self.length).rev() {
            let other = if i >= comb {
                self.line[i - comb] - mean
            } else {
                0.0
            };
            self.line[i] += -mean - other;
            energy += self.line[i] * self.line[i];
        }
        let scale = pluck.amplitude / (energy / self.length as f32).sqrt().max(1e-6);
        for x in &mut self.line[..self.length] {
            *x *= scale;
        }
        self.peak = pluck.amplitude;
    }

    #[inline]
    fn step(&mut self) -> f32 {
        let x = self.line[self.at];
        let lost = self.gain * ((1.0 - self.blend) * x + self.blend * self.before);
        self.before = x;
        let y = self.tune * (lost - self.allpass[1]) + self.allpass[0];
        self.allpass = [lost, y];
        self.line[self.at] = y;
        self.at += 1;
        if self.at == self.length {
            self.at = 0;
        }
        x
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Zero crossings are of no use on a rich tone: the lag of the best self-similarity is the period.
    #[test]
    fn strings_are_in_tune() {
        for frequency in [55.0, 110.0, 261.6, 523.25, 1046.5_f32] {
            let mut strings = Strings::new(48_000.0, 1);
            strings.pluck(Pluck {
                frequency,
                amplitude: 0.5,
                ring: 6.0,
                hard: 0.6,
                at: 0.13,
                weights: [1.0; 2],
            });
            let mut sound = Vec::new();
            for _ in 0..700 {
                let mut frame = [[0.0; 2]; FRAME];
                strings.render(&mut frame);
                sound.extend(frame.iter().map(|y| f64::from(y[0])));
            }
            let sound = &sound[9_600..];
            // Twenty periods on, so that a sample is little.
            let around = (20.0 * 48_000.0 / frequency) as usize;
            let likeness = |lag: usize| (0..8_000).map(|i| sound[i] * sound[i + lag]).sum::<f64>();
            let best = (around - 12..around + 12).max_by(|a, b| likeness(*a).total_cmp(&likeness(*b)));
            let heard = 20.0 * 48_000.0 / best.unwrap() as f64;
            let cents = 1_200.0 * (heard / f64::from(frequency)).log2();
            assert!(cents.abs() < 6.0, "{frequency}: {cents}");
        }
    }

    #[test]
    fn a_string_ends_and_none_is_left_to_compute() {
        let mut strings = Strings::new(48_000.0, 1);
        for n in 0..30 {
            strings.pluck(Pluck {
                frequency: 200.0 + 10.0 * n as f32,
                amplitude: 0.5,
                ring: 0.5,
                hard: 0.5,
                at: 0.13,
                weights: [1.0; 2],
            });
        }
        let mut frame = [[0.0; 2]; FRAME];
        for _ in 0..2000 {
            frame = [[0.0; 2]; FRAME];
            strings.render(&mut frame);
        }
        assert_eq!(frame, [[0.0; 2]; FRAME]);
        assert!(strings.pool.iter().all(|string| string.peak == 0.0));
    }
}
