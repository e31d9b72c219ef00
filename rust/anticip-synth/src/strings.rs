//! Plucked strings (Karplus & Strong 1983, with the tuning all-pass and the pick position of Jaffe & Smith
//! 1983).

use crate::control::FRAME;
use crate::tone::White;

/// Number of strings that can sound at once.
const MAX_STRINGS: usize = 14;
/// Lowest note, Hz.
const MIN_HZ: f32 = 30.0;
/// Level below which a string has ended (-80 dB).
const END_LEVEL: f32 = 1e-4;

/// Parameters of a pluck.
#[derive(Clone, Copy)]
pub(crate) struct Pluck {
    /// Hz.
    pub(crate) frequency: f32,
    pub(crate) amplitude: f32,
    /// Time to -60 dB of the fundamental, seconds.
    pub(crate) ring: f32,
    /// Hardness of the pick: 0 a soft thumb, 1 a hard pick.
    pub(crate) hardness: f32,
    /// Plucking position as a fraction of the length: nasal near the bridge, hollow in the middle.
    pub(crate) position: f32,
    pub(crate) weights: [f32; 2],
}

struct String {
    line: Vec<f32>,
    loop_length: usize,
    read_position: usize,
    /// Coefficient of the tuning all-pass.
    allpass_gain: f32,
    /// State of the tuning all-pass: input and output.
    allpass: [f32; 2],
    /// Gain per period.
    gain: f32,
    /// Weight of the previous sample in the loss filter.
    blend: f32,
    /// The previous sample.
    previous: f32,
    weights: [f32; 2],
    peak: f32,
    /// Next pluck; a sounding string fades out for one frame first.
    next: Option<Pluck>,
}

pub(crate) struct Strings {
    pool: [String; MAX_STRINGS],
    white: White,
    sample_rate: f32,
}

impl Strings {
    pub(crate) fn new(sample_rate: f64, seed: u64) -> Self {
        let max_length = (sample_rate as f32 / MIN_HZ) as usize + 2;
        Self {
            pool: core::array::from_fn(|_| String {
                line: vec![0.0; max_length],
                loop_length: 2,
                read_position: 0,
                allpass_gain: 0.0,
                allpass: [0.0; 2],
                gain: 0.0,
                blend: 0.0,
                previous: 0.0,
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

    /// Plucks the quietest string.
    pub(crate) fn pluck(&mut self, pluck: Pluck) {
        let loudness = |s: &String| s.next.map_or(s.peak, |next| 1.0 + next.amplitude);
        let quietest = (0..MAX_STRINGS).fold(0, |best, i| {
            if loudness(&self.pool[i]) < loudness(&self.pool[best]) {
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
            let is_fading = string.next.is_some() && string.peak > 0.0;
            if !is_fading && let Some(pluck) = string.next.take() {
                string.begin(pluck, self.sample_rate, &mut self.white);
            }
            if string.peak <= 0.0 {
                continue;
            }
            let mut peak = 0.0_f32;
            for (i, y) in output.iter_mut().enumerate() {
                let mut x = string.step();
                if is_fading {
                    x *= 1.0 - (i + 1) as f32 / FRAME as f32;
                }
                peak = peak.max(x.abs());
                y[0] += x * string.weights[0];
                y[1] += x * string.weights[1];
            }
            // A low string may stay near zero for longer than a frame, so the peak decays slowly.
            string.peak = peak.max(0.93 * string.peak);
            if is_fading || string.peak < END_LEVEL {
                string.peak = 0.0;
            }
        }
    }
}

impl String {
    fn begin(&mut self, pluck: Pluck, sample_rate: f32, white: &mut White) {
        // A note beyond the range is played in the nearest octave inside.
        let octaves_beyond = |ratio: f32| ratio.log2().ceil().max(0.0);
        let up = octaves_beyond(MIN_HZ / pluck.frequency);
        let frequency = pluck.frequency * (up - octaves_beyond(pluck.frequency / (0.2 * sample_rate))).exp2();
        let period = sample_rate / frequency;
        self.blend = 0.5 - 0.42 * pluck.hardness;
        // The loss filter delays by `blend` samples, the all-pass by 0.2 to 1.2.
        let line_delay = period - self.blend;
        self.loop_length = ((line_delay - 0.2).floor() as usize).clamp(2, self.line.len());
        let fraction = line_delay - self.loop_length as f32;
        self.allpass_gain = (1.0 - fraction) / (1.0 + fraction);
        self.gain = 10.0_f32.powf(-3.0 / (pluck.ring * frequency)).min(0.9999);
        self.weights = pluck.weights;
        (self.read_position, self.allpass, self.previous) = (0, [0.0; 2], 0.0);
        // A burst of filtered noise minus itself delayed by the pick's distance: the comb of a plucked
        // string.
        let softening = 0.08 + 0.9 * pluck.hardness;
        let comb = ((pluck.position * self.loop_length as f32) as usize).max(1);
        let (mut low, mut sum) = (0.0, 0.0);
        for i in 0..self.loop_length {
            low += softening * (white.next() - low);
            self.line[i] = low;
            sum += low;
        }
        let mean = sum / self.loop_length as f32;
        let mut energy = 0.0;
        for i in (0..self.loop_length).rev() {
            let other = if i >= comb {
                self.line[i - comb] - mean
            } else {
                0.0
            };
            self.line[i] += -mean - other;
            energy += self.line[i] * self.line[i];
        }
        let scale = pluck.amplitude / (energy / self.loop_length as f32).sqrt().max(1e-6);
        for x in &mut self.line[..self.loop_length] {
            *x *= scale;
        }
        self.peak = pluck.amplitude;
    }

    #[inline]
    fn step(&mut self) -> f32 {
        let x = self.line[self.read_position];
        let filtered = self.gain * ((1.0 - self.blend) * x + self.blend * self.previous);
        self.previous = x;
        let y = self.allpass_gain * (filtered - self.allpass[1]) + self.allpass[0];
        self.allpass = [filtered, y];
        self.line[self.read_position] = y;
        self.read_position += 1;
        if self.read_position == self.loop_length {
            self.read_position = 0;
        }
        x
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cents by which a string that is to sound at one frequency is above another. Measures the period by
    /// autocorrelation, because zero crossings are ambiguous in a rich tone.
    fn cents(sample_rate: f64, frequency: f32, expected: f32) -> f64 {
        let mut strings = Strings::new(sample_rate, 1);
        strings.pluck(Pluck {
            frequency,
            amplitude: 0.5,
            ring: 6.0,
            hardness: 0.6,
            position: 0.13,
            weights: [1.0; 2],
        });
        let mut sound = Vec::new();
        for _ in 0..700 {
            let mut frame = [[0.0; 2]; FRAME];
            strings.render(&mut frame);
            sound.extend(frame.iter().map(|y| f64::from(y[0])));
        }
        // Later a high note has decayed.
        let sound = &sound[(0.05 * sample_rate) as usize..];
        // Over twenty periods, so that a sample makes little difference.
        let period = sample_rate / f64::from(expected);
        let (around, near) = ((20.0 * period) as usize, (0.4 * period) as usize);
        let correlation = |lag: usize| (0..8_000).map(|i| sound[i] * sound[i + lag]).sum::<f64>();
        let best = (around - near..=around + near).max_by(|a, b| correlation(*a).total_cmp(&correlation(*b)));
        1_200.0 * (20.0 * period / best.unwrap() as f64).log2()
    }

    #[test]
    fn strings_are_in_tune() {
        for frequency in [55.0, 110.0, 261.6, 523.25, 1046.5] {
            let cents = cents(48_000.0, frequency, frequency);
            assert!(cents.abs() < 6.0, "{frequency}: {cents}");
        }
    }

    #[test]
    fn a_note_beyond_the_range_of_the_strings_sounds_in_another_octave() {
        for (sample_rate, frequency, expected) in [
            (48_000.0, 16.35, 32.7),
            (8_000.0, 1_661.2, 830.6),
            (8_000.0, 3_729.3, 932.33),
        ] {
            let cents = cents(sample_rate, frequency, expected);
            assert!(cents.abs() < 12.0, "{frequency}: {cents}");
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
                hardness: 0.5,
                position: 0.13,
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
