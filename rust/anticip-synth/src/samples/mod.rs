//! A folder of recorded sounds, cut into pieces that are found by how they sound.

mod describe;
mod read;

use std::path::Path;

use crate::clock::Chance;
use crate::error::SynthError;

/// Pieces among which a grain is chosen.
const DRAWN: usize = 12;
/// How far around the brightness that is asked for they are drawn, as a share of all.
const AROUND: f32 = 0.1;
/// How far a grain may be transposed, as a factor.
const TRANSPOSED: f32 = 2.8;

/// A piece of a sound: where it begins, and how it sounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) start: usize,
    /// Where its sound ends.
    pub(crate) end: usize,
    /// Where in it the level rises most, and by how many dB it does.
    pub(crate) strike: usize,
    pub(crate) rise: f32,
    /// What brings it to a level of 1.
    pub(crate) gain: f32,
    /// Spectral centroid, Hz.
    pub(crate) centroid: f32,
    /// Spectral flatness, 0 a tone, 1 noise.
    pub(crate) flatness: f32,
    /// Hz, of what has a pitch.
    pub(crate) pitch: Option<f32>,
}

/// Sounds of a folder at one sample rate, in mono, and their pieces from dull to bright.
pub struct Samples {
    pub(crate) sound: Vec<f32>,
    pieces: Vec<Piece>,
    sample_rate: f64,
    summary: String,
}

impl Samples {
    /// Reads the sounds of a folder and of the folders in it: WAV, FLAC, Ogg Vorbis, MP3 and AIFF of any length
    /// and rate, in the order of their names, until 128 MiB of memory are full. Links to files are followed; what is
    /// hidden and links to folders are left alone.
    ///
    /// # Errors
    /// [`SynthError::SampleRate`] outside 8 to 192 kHz; [`SynthError::Samples`] for a folder that cannot be read
    /// or holds no sound.
    pub fn read(folder: &Path, sample_rate: f64) -> Result<Self, SynthError> {
        if !(8_000.0..=192_000.0).contains(&sample_rate) {
            return Err(SynthError::SampleRate(sample_rate));
        }
        let read::Found {
            sound,
            mut pieces,
            summary,
        } = read::folder(folder, sample_rate)?;
        pieces.sort_by(|a, b| a.centroid.total_cmp(&b.centroid));
        Ok(Self {
            sound,
            pieces,
            sample_rate,
            summary,
        })
    }

    /// Whether a folder, or one in it, has a file that is read, by the names.
    pub fn any(folder: &Path) -> bool {
        read::any(folder)
    }

    /// What was read and what was not, in a line.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// Samples a second.
    pub fn sample_rate(&self) -> f64 {
        self.sample_rate
    }

    /// Some pieces about as bright, of which there are always [`DRAWN`], from smooth to noisy.
    fn drawn(&self, brightness: f32, chance: &mut Chance) -> [Piece; DRAWN] {
        let last = (self.pieces.len() - 1) as f32;
        let wide = (AROUND * last).max(3.0);
        let mut drawn: [Piece; DRAWN] = core::array::from_fn(|_| {
            let at = brightness * last + wide * (chance.next() - 0.5);
            self.pieces[at.clamp(0.0, last).round() as usize]
        });
        drawn.sort_unstable_by(|a, b| a.flatness.total_cmp(&b.flatness));
        drawn
    }

    /// A piece as bright and as rough among the others as asked for, near a frequency, and how it is transposed to it.
    pub(crate) fn find(
        &self,
        brightness: f32,
        roughness: f32,
        frequency: f32,
        chance: &mut Chance,
    ) -> (Piece, f32) {
        let drawn = self.drawn(brightness, chance);
        let first = (roughness * (DRAWN - 3) as f32).round() as usize;
        let far = |piece: &Piece| piece.pitch.map_or(1.0, |pitch| (frequency / pitch).log2().abs());
        let near = drawn[first..first + 3]
            .iter()
            .min_by(|a, b| far(a).total_cmp(&far(b)));
        let piece = *near.unwrap_or(&drawn[first]);
        (piece, transposed(piece, frequency))
    }

    /// The piece about as bright that begins most suddenly.
    pub(crate) fn find_strike(&self, brightness: f32, chance: &mut Chance) -> Piece {
        let drawn = self.drawn(brightness, chance);
        let sudden = drawn.iter().max_by(|a, b| a.rise.total_cmp(&b.rise));
        *sudden.unwrap_or(&drawn[0])
    }
}

/// By what a piece is transposed to sound at a frequency or, where that is far, in another octave of it.
pub(crate) fn transposed(piece: Piece, frequency: f32) -> f32 {
    // What has no pitch is taken to be in the middle of the range.
    let mut ratio = frequency / piece.pitch.unwrap_or(300.0);
    while ratio > TRANSPOSED {
        ratio *= 0.5;
    }
    while ratio < 1.0 / TRANSPOSED {
        ratio *= 2.0;
    }
    ratio
}
