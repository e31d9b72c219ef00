//! Look-ahead limiter with a guaranteed ceiling.
//!
//! fundsp's limiter follows the peak with three one-pole filters, so that a sudden peak passes above its
//! threshold. Here the gain is the mean of past values, each of which is at most what the sample leaving the
//! delay line, and the points next to it, require; so the mean is too. The running sum is kept in integers,
//! so that it never drifts.

/// Maximum sample value, -2 dBFS; peaks between samples, as a converter reconstructs them, stay below -1
/// dBFS.
pub const CEILING: f32 = 0.794_328_2;

/// Look-ahead, seconds.
const LOOKAHEAD_S: f64 = 0.002;
/// Time constant of the return to unity gain, seconds.
const RELEASE_S: f64 = 0.120;
/// Samples after which the peak between a sample and the next is known.
const PEAK_DELAY: usize = 12;

/// Interpolates a quarter of the way between the middle two of the latest samples: a sinc in a Kaiser window
/// (beta 6), within 0.1 dB up to 20 kHz. Shorter kernels are low there, and bright plucks pass.
const QUARTER: [f32; 2 * PEAK_DELAY] = [
    -0.000722, 0.001758, -0.003511, 0.006258, -0.010353, 0.016277, -0.024775, 0.037196, -0.056478, 0.090810,
    -0.174825, 0.899469, 0.296984, -0.121339, 0.070783, -0.045673, 0.030369, -0.020141, 0.013048, -0.008111,
    0.004741, -0.002529, 0.001165, -0.000401,
];
/// The same, halfway.
const HALF: [f32; 2 * PEAK_DELAY] = [
    -0.000775, 0.002039, -0.004231, 0.007723, -0.012983, 0.020635, -0.031612, 0.047531, -0.071746, 0.112966,
    -0.203360, 0.633812, 0.633812, -0.203360, 0.112966, -0.071746, 0.047531, -0.031612, 0.020635, -0.012983,
    0.007723, -0.004231, 0.002039, -0.000775,
];

/// Unity gain as an integer.
const ONE: u32 = 1 << 24;

/// Stereo limiter; both channels share one gain.
#[derive(Clone)]
pub(crate) struct Limiter {
    delay: Vec<[f32; 2]>,
    /// Ring of the latest gains, summed exactly in `sum`: as many as since everything that a sample requires
    /// was known.
    gains: Vec<u32>,
    sum: u64,
    newest: usize,
    /// Queue of (sample count, required gain) with increasing gains: its head is the minimum over the window.
    queue: Vec<(u64, f32)>,
    head: usize,
    queued: usize,
    position: usize,
    count: u64,
    gain: f32,
    release: f32,
    /// The latest samples, for the peak between the middle two.
    recent: [[f32; 2]; 2 * PEAK_DELAY],
}

impl Limiter {
    pub(crate) fn new(sample_rate: f64) -> Self {
        let length = ((LOOKAHEAD_S * sample_rate).round() as usize).max(2 * PEAK_DELAY);
        let mut limiter = Self {
            delay: vec![[0.0; 2]; length],
            gains: vec![ONE; length - PEAK_DELAY],
            sum: 0,
            newest: 0,
            queue: vec![(0, 1.0); length],
            head: 0,
            queued: 0,
            position: 0,
            count: 0,
            gain: 1.0,
            recent: [[0.0; 2]; 2 * PEAK_DELAY],
            release: (1.0 - (-1.0 / (RELEASE_S * sample_rate)).exp()) as f32,
        };
        limiter.reset();
        limiter
    }

    /// Latency in samples.
    pub(crate) fn latency(&self) -> usize {
        self.delay.len() - 1
    }

    pub(crate) fn reset(&mut self) {
        self.delay.fill([0.0; 2]);
        self.gains.fill(ONE);
        self.sum = u64::from(ONE) * self.gains.len() as u64;
        self.head = 0;
        self.queued = 0;
        self.newest = 0;
        self.position = 0;
        self.count = 0;
        self.gain = 1.0;
        self.recent = [[0.0; 2]; 2 * PEAK_DELAY];
    }

    /// Largest magnitude at three points between the middle two of the latest samples.
    #[inline]
    fn peak_between_samples(&mut self, input: [f32; 2]) -> f32 {
        self.recent.rotate_left(1);
        self.recent[2 * PEAK_DELAY - 1] = input;
        let mut points = [[0.0_f32; 2]; 3];
        for (n, x) in self.recent.iter().enumerate() {
            for k in 0..2 {
                points[0][k] += QUARTER[n] * x[k];
                points[1][k] += HALF[n] * x[k];
                points[2][k] += QUARTER[2 * PEAK_DELAY - 1 - n] * x[k];
            }
        }
        points
            .as_flattened()
            .iter()
            .fold(0.0, |peak, x| peak.max(x.abs()))
    }

    /// Minimum of the required gain over the last `length` samples.
    #[inline]
    fn window_minimum(&mut self, required: f32) -> f32 {
        let length = self.delay.len();
        let wrap = |i: usize| if i >= length { i - length } else { i };
        if self.queued > 0 && self.queue[self.head].0 + length as u64 <= self.count {
            self.head = wrap(self.head + 1);
            self.queued -= 1;
        }
        while self.queued > 0 && self.queue[wrap(self.head + self.queued - 1)].1 >= required {
            self.queued -= 1;
        }
        self.queue[wrap(self.head + self.queued)] = (self.count, required);
        self.queued += 1;
        self.queue[self.head].1
    }

    #[inline]
    pub(crate) fn tick(&mut self, input: [f32; 2]) -> [f32; 2] {
        let peak = input[0]
            .abs()
            .max(input[1].abs())
            .max(self.peak_between_samples(input));
        let required = if peak > CEILING { CEILING / peak } else { 1.0 };
        let minimum = self.window_minimum(required);
        let released = self.gain + (1.0 - self.gain) * self.release;
        self.gain = minimum.min(released);
        let gain = (self.gain * ONE as f32) as u32; // rounds down
        let length = self.delay.len();
        self.sum = self.sum + u64::from(gain) - u64::from(self.gains[self.newest]);
        self.gains[self.newest] = gain;
        self.newest += 1;
        if self.newest == self.gains.len() {
            self.newest = 0;
        }
        self.delay[self.position] = input;
        self.position += 1;
        if self.position == length {
            self.position = 0;
        }
        self.count += 1;
        let oldest = self.delay[self.position];
        let mean = (self.sum as f64 / (u64::from(ONE) * self.gains.len() as u64) as f64) as f32;
        // Only removes the rounding error of the product.
        oldest.map(|x| (x * mean).clamp(-CEILING, CEILING))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The product before the final clamp already obeys the ceiling.
    #[test]
    fn the_gain_alone_keeps_the_ceiling() {
        let mut limiter = Limiter::new(48_000.0);
        let mut state = 1_u64;
        for n in 0..200_000_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let noise = (state >> 40) as f32 / (1 << 23) as f32 - 1.0;
            let x = noise * if n % 997 < 20 { 50.0 } else { 0.5 };
            let oldest = limiter.delay[(limiter.position + 1) % limiter.delay.len()];
            limiter.tick([x, -0.5 * x]);
            let mean = limiter.sum as f64 / (f64::from(ONE) * limiter.gains.len() as f64);
            assert!(f64::from(oldest[0].abs()) * mean <= f64::from(CEILING) * (1.0 + 1e-6));
        }
        assert_eq!(
            limiter.sum,
            limiter.gains.iter().map(|&g| u64::from(g)).sum::<u64>()
        );
    }

    /// Bursts of the brightest noise, eight times too loud: what a converter makes of them, four times
    /// oversampled with a kernel of 48 samples, stays below -1 dBFS.
    #[test]
    fn the_peaks_between_the_samples_stay_below_one_decibel() {
        let (mut limiter, mut state) = (Limiter::new(48_000.0), 1_u64);
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) as f64 / f64::from(1 << 23) - 1.0
        };
        let (mut low, mut sound) = (0.0, Vec::new());
        for n in 0..40_000 {
            let noise = random();
            low += 0.7 * (noise - low);
            let x = if n % 1_000 < 50 {
                8.0 * (noise - low)
            } else {
                0.1 * noise
            };
            sound.push(f64::from(limiter.tick([x as f32; 2])[0]));
        }
        let reach = 24.0;
        let mut highest = 0.0_f64;
        for window in sound.windows(48) {
            for quarter in [0.25, 0.5, 0.75] {
                let between = window.iter().enumerate().map(|(k, x)| {
                    let t = core::f64::consts::PI * (23.0 + quarter - k as f64);
                    x * t.sin() / t * (0.5 + 0.5 * (t / reach).cos())
                });
                highest = highest.max(between.sum::<f64>().abs());
            }
        }
        assert!((0.75..0.891).contains(&highest), "{highest}");
    }

    #[test]
    fn quiet_sound_passes_unchanged_after_the_latency() {
        let mut limiter = Limiter::new(48_000.0);
        let latency = limiter.latency();
        for n in 0..1000_usize {
            let x = (n as f32 * 0.1).sin() * 0.5;
            let y = limiter.tick([x, x])[0];
            if n >= latency {
                assert_eq!(y, ((n - latency) as f32 * 0.1).sin() * 0.5);
            }
        }
    }
}
