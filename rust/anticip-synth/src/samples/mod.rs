//! Recorded sounds of a folder, cut into pieces that are selected by how they sound.

mod describe;
mod read;

use std::path::Path;

use crate::clock::Random;
use crate::error::SynthError;

/// Number of candidate pieces for a grain.
const CANDIDATES: usize = 12;
/// Width of the range of brightness they are drawn from, as a fraction of all pieces.
const BRIGHTNESS_RANGE: f32 = 0.1;
/// Maximum factor of transposition, either way.
const MAX_TRANSPOSITION: f32 = 2.8;

/// A piece of a sound, with its descriptors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) start: usize,
    /// End of its sound.
    pub(crate) end: usize,
    /// Position of its steepest rise in level.
    pub(crate) onset: usize,
    /// Height of that rise, dB.
    pub(crate) onset_rise: f32,
    /// Gain that brings it to a level of 1.
    pub(crate) gain: f32,
    /// Spectral centroid, Hz.
    pub(crate) centroid: f32,
    /// Spectral flatness: 0 for a tone, 1 for noise.
    pub(crate) flatness: f32,
    /// Pitch in Hz, if it has one.
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
    /// Reads the sounds of a folder and its subfolders: WAV, FLAC, Ogg Vorbis, MP3 and AIFF of any length and
    /// rate, in the order of their names, up to 128 MiB of memory. Links to files are followed; hidden files
    /// and links to folders are skipped.
    ///
    /// # Errors
    /// [`SynthError::SampleRate`] outside 8 to 192 kHz; [`SynthError::Samples`] if the folder cannot be read
    /// or has no sounds.
    pub fn read(folder: &Path, sample_rate: f64) -> Result<Self, SynthError> {
        if !(8_000.0..=192_000.0).contains(&sample_rate) {
            return Err(SynthError::SampleRate(sample_rate));
        }
        let read::FolderContents {
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

    /// Whether a folder or one of its subfolders has a file that would be read, judging by names.
    pub fn any(folder: &Path) -> bool {
        read::any(folder)
    }

    /// What was read and what was left out, in one line.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// Samples per second.
    pub fn sample_rate(&self) -> f64 {
        self.sample_rate
    }

    /// [`CANDIDATES`] random pieces of about this brightness, from smooth to noisy; may contain duplicates.
    fn candidates(&self, brightness: f32, random: &mut Random) -> [Piece; CANDIDATES] {
        let last = (self.pieces.len() - 1) as f32;
        let range = (BRIGHTNESS_RANGE * last).max(3.0);
        let mut candidates: [Piece; CANDIDATES] = core::array::from_fn(|_| {
            let at = brightness * last + range * (random.next() - 0.5);
            self.pieces[at.clamp(0.0, last).round() as usize]
        });
        candidates.sort_unstable_by(|a, b| a.flatness.total_cmp(&b.flatness));
        candidates
    }

    /// A piece of this brightness and roughness relative to the others, near a frequency, and its
    /// transposition to it.
    pub(crate) fn find(
        &self,
        brightness: f32,
        roughness: f32,
        frequency: f32,
        random: &mut Random,
    ) -> (Piece, f32) {
        let candidates = self.candidates(brightness, random);
        let first = (roughness * (CANDIDATES - 3) as f32).round() as usize;
        let distance = |piece: &Piece| piece.pitch.map_or(1.0, |pitch| (frequency / pitch).log2().abs());
        let nearest = candidates[first..first + 3]
            .iter()
            .min_by(|a, b| distance(a).total_cmp(&distance(b)));
        let piece = *nearest.unwrap_or(&candidates[first]);
        (piece, transposition(piece, frequency))
    }

    /// The piece of about this brightness with the most sudden onset.
    pub(crate) fn find_onset(&self, brightness: f32, random: &mut Random) -> Piece {
        let candidates = self.candidates(brightness, random);
        let most_sudden = candidates
            .iter()
            .max_by(|a, b| a.onset_rise.total_cmp(&b.onset_rise));
        *most_sudden.unwrap_or(&candidates[0])
    }
}

/// Factor by which to transpose a piece to a frequency, or to another octave of it if that is too far.
pub(crate) fn transposition(piece: Piece, frequency: f32) -> f32 {
    // A piece without pitch is treated as in the middle of the range.
    let mut ratio = frequency / piece.pitch.unwrap_or(300.0);
    while ratio > MAX_TRANSPOSITION {
        ratio *= 0.5;
    }
    while ratio < 1.0 / MAX_TRANSPOSITION {
        ratio *= 2.0;
    }
    ratio
}
