//! Reading a folder of sounds: finding files, decoding, resampling, mixing to mono.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use rubato::audioadapter_buffers::direct::SequentialSliceOfVecs;
use rubato::{Async, FixedAsync, Resampler, SincInterpolationParameters, WindowFunction};
use symphonia::core::codecs::audio::AudioDecoderOptions;
use symphonia::core::errors::Error;
use symphonia::core::formats::probe::Hint;
use symphonia::core::formats::{FormatOptions, TrackType};
use symphonia::core::io::{MediaSource, MediaSourceStream, MediaSourceStreamOptions, ReadOnlySource};
use symphonia::core::meta::MetadataOptions;

use super::{Piece, describe};
use crate::error::SynthError;

/// Maximum number of samples: 128 MiB, 11 minutes at 48 kHz.
const MAX_SAMPLES: usize = (128 << 20) / size_of::<f32>();
/// Maximum file size, bytes.
const MAX_FILE_BYTES: u64 = 1 << 30;
/// Maximum number of files and folders visited.
const MAX_ENTRIES: usize = 10_000;
/// Maximum depth of subfolders.
const MAX_DEPTH: usize = 8;
/// Minimum length of a sound, seconds.
const MIN_SOUND_S: f64 = 0.02;
/// Cutoff of the filter that removes DC offset, Hz.
const DC_CUTOFF_HZ: f64 = 20.0;
/// Power of the mixed channels relative to the loudest below which they count as cancelling each other.
const MIN_MIX_POWER: f64 = 0.01;
/// File name extensions that are read.
const SUPPORTED: [&str; 10] = [
    "wav", "wave", "bwf", "flac", "ogg", "oga", "mp3", "aif", "aiff", "aifc",
];
/// File name extensions of other sound formats, reported as left out.
const UNSUPPORTED: [&str; 12] = [
    "m4a", "m4b", "mp4", "aac", "opus", "wma", "caf", "ape", "wv", "amr", "au", "w64",
];
/// Maximum number of left-out files that are listed by name.
const MAX_LISTED: usize = 5;

/// All sounds one after another, and their pieces.
pub(super) struct FolderContents {
    pub(super) sound: Vec<f32>,
    pub(super) pieces: Vec<Piece>,
    pub(super) summary: String,
}

/// A sound file, judging by its name, and the reason if it is not read.
type SoundFile = (PathBuf, Option<&'static str>);

/// Collects sound files by their names, sorted; skips other files and hidden ones. `left` is the number of
/// entries that may still be visited.
fn files(
    folder: &Path,
    depth: usize,
    remaining: &mut usize,
    files_found: &mut Vec<SoundFile>,
) -> std::io::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(folder)?.take(*remaining).collect::<Result<_, _>>()?;
    *remaining -= entries.len();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        // On foreign file systems macOS writes a hidden companion, `._a.wav`, next to each file.
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            if depth > 0 && files(&path, depth - 1, remaining, files_found).is_err() {
                files_found.push((path, Some("the folder cannot be read")));
            }
            continue;
        }
        let extension = path.extension().and_then(|kind| kind.to_str());
        let extension = extension.map(str::to_ascii_lowercase).unwrap_or_default();
        // Links to files are followed; a link to a folder might lead in a circle.
        let is_file = fs::metadata(&path).is_ok_and(|what| what.is_file());
        if SUPPORTED.contains(&extension.as_str()) {
            files_found.push((path, (!is_file).then_some("no file")));
        } else if is_file && UNSUPPORTED.contains(&extension.as_str()) {
            files_found.push((path, Some("its format is not read")));
        }
    }
    Ok(())
}

/// Whether a folder has a file that would be read, judging by names.
pub(super) fn any(folder: &Path) -> bool {
    let mut paths = Vec::new();
    let result = files(folder, MAX_DEPTH, &mut MAX_ENTRIES.clone(), &mut paths);
    result.is_ok() && paths.iter().any(|(_, unread)| unread.is_none())
}

/// Reads the sounds of a folder at `sample_rate`.
pub(super) fn folder(folder: &Path, sample_rate: f64) -> Result<FolderContents, SynthError> {
    let folder_error = |what: &str| SynthError::Samples(format!("{}: {what}", folder.display()));
    let mut paths = Vec::new();
    files(folder, MAX_DEPTH, &mut MAX_ENTRIES.clone(), &mut paths)
        .map_err(|error| folder_error(&format!("not a folder that can be read ({error})")))?;
    let mut contents = FolderContents {
        sound: Vec::new(),
        pieces: Vec::new(),
        summary: String::new(),
    };
    let (mut count, mut not_read, mut is_full) = (0, 0, false);
    let mut left_out = Vec::new();
    for (path, reason) in &paths {
        let free = MAX_SAMPLES - contents.sound.len();
        is_full |= free < (MIN_SOUND_S * sample_rate) as usize;
        let added = match reason {
            Some(reason) => Err((*reason).to_owned()),
            None if is_full => {
                not_read += 1;
                continue;
            }
            None => {
                // A panic of a decoder on a damaged file must not end the program.
                catch_unwind(AssertUnwindSafe(|| decoded(path, sample_rate, free, None)))
                    .unwrap_or_else(|_| Err("damaged".to_owned()))
                    .and_then(|sound| contents.add(&sound, sample_rate))
            }
        };
        match added {
            Ok(()) => {
                count += 1;
                is_full = contents.sound.len() == MAX_SAMPLES;
            }
            Err(problem) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let name = name.replace(char::is_control, "?");
                left_out.push(format!("{name}: {problem}"));
            }
        }
    }
    let mut reasons = left_out[..left_out.len().min(MAX_LISTED)].join("; ");
    if left_out.len() > MAX_LISTED {
        reasons += &format!("; {} more", left_out.len() - MAX_LISTED);
    }
    if count == 0 {
        return Err(folder_error(&if reasons.is_empty() {
            "no sound in it (expected WAV, FLAC, Ogg Vorbis, MP3 or AIFF)".to_owned()
        } else {
            format!("no sound in it ({reasons})")
        }));
    }
    let seconds = contents.sound.len() as f64 / sample_rate;
    contents.summary = format!("{}: {count} sounds, {seconds:.1} s", folder.display());
    if is_full {
        contents.summary += &format!(
            "; the memory for them (128 MiB) is full, {not_read} more and the end of the last left out"
        );
    }
    if !left_out.is_empty() {
        contents.summary += &format!("; {} left out ({reasons})", left_out.len());
    }
    Ok(contents)
}

impl FolderContents {
    /// Adds a sound, unless nothing in it is audible.
    fn add(&mut self, sound: &[f32], sample_rate: f64) -> Result<(), String> {
        let (start, piece_count) = (self.sound.len(), self.pieces.len());
        self.sound.extend(sound);
        let range = start..self.sound.len();
        describe::pieces(&self.sound, range, sample_rate as f32, &mut self.pieces);
        if self.pieces.len() == piece_count {
            self.sound.truncate(start);
            return Err("nothing in it can be heard".to_owned());
        }
        Ok(())
    }
}

/// Decodes a file to mono, at most `max_samples` at `sample_rate`: one `channel`, or the mean of all; if they
/// cancel each other, the loudest one.
fn decoded(
    path: &Path,
    sample_rate: f64,
    max_samples: usize,
    channel: Option<usize>,
) -> Result<Vec<f32>, String> {
    let describe_error = |error: Error| match error {
        Error::Unsupported(_) => "its format or coding is not read".to_owned(),
        other => other.to_string(),
    };
    let file = fs::File::open(path).map_err(|error| error.to_string())?;
    let length = file.metadata().map_err(|error| error.to_string())?.len();
    if length > MAX_FILE_BYTES {
        return Err(format!(
            "{} MiB, at most {} are read",
            length >> 20,
            MAX_FILE_BYTES >> 20
        ));
    }
    let probe = |source: Box<dyn MediaSource>| {
        symphonia::default::get_probe().probe(
            &Hint::new(),
            MediaSourceStream::new(source, MediaSourceStreamOptions::default()),
            FormatOptions::default(),
            MetadataOptions::default(),
        )
    };
    let mut format = match probe(Box::new(file)) {
        // symphonia seeks the end of an AIFF file, which a truncated one lacks, unless it cannot seek.
        Err(Error::IoError(_)) => {
            let file = fs::File::open(path).map_err(|error| error.to_string())?;
            probe(Box::new(ReadOnlySource::new(file)))
        }
        result => result,
    }
    .map_err(describe_error)?;
    let track = format.default_track(TrackType::Audio).ok_or("no sound in it")?;
    let id = track.id;
    let codec = track.codec_params.as_ref().and_then(|codec| codec.audio());
    let mut decoder = symphonia::default::get_codecs()
        .make_audio_decoder(codec.ok_or("no sound in it")?, &AudioDecoderOptions::default())
        .map_err(describe_error)?;
    let (mut mono, mut block, mut rate) = (Vec::new(), Vec::<f32>::new(), 0);
    let (mut power, mut powers) = (0.0, Vec::<f64>::new());
    loop {
        let packet = match format.next_packet() {
            Ok(Some(packet)) => packet,
            // A truncated file is used as far as it goes.
            Ok(None) | Err(Error::IoError(_) | Error::ResetRequired) => break,
            Err(error) => return Err(describe_error(error)),
        };
        if packet.track_id != id {
            continue;
        }
        let buffer = match decoder.decode(&packet) {
            Ok(buffer) => buffer,
            Err(Error::DecodeError(_) | Error::IoError(_)) => continue,
            Err(error) => return Err(describe_error(error)),
        };
        let channels = buffer.num_planes();
        if rate == 0 {
            rate = buffer.spec().rate();
            if !(2_000..=768_000).contains(&rate) {
                return Err(format!("{rate} Hz, expected 2000 to 768000"));
            }
        }
        powers.resize(channels, 0.0);
        if channels == 0 || channel.is_some_and(|c| c >= channels) || buffer.spec().rate() != rate {
            return Err("it changes on the way".to_owned());
        }
        block.resize(buffer.samples_interleaved(), 0.0);
        buffer.copy_to_slice_interleaved(&mut block);
        mono.extend(block.chunks_exact(channels).map(|x| {
            let mean = x.iter().sum::<f32>() / channels as f32;
            let y = finite(channel.map_or(mean, |c| x[c]));
            power += f64::from(y * y);
            for (sum, x) in powers.iter_mut().zip(x) {
                *sum += f64::from(finite(*x)).powi(2);
            }
            y
        }));
        if mono.len() as f64 * sample_rate >= max_samples as f64 * f64::from(rate) {
            break;
        }
    }
    let loudest = powers.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    if let Some((loudest, most_power)) = loudest
        && channel.is_none()
        && power < MIN_MIX_POWER * most_power
    {
        return decoded(path, sample_rate, max_samples, Some(loudest));
    }
    let mut sound = resampled(mono, rate, sample_rate)?;
    if (sound.len() as f64) < MIN_SOUND_S * sample_rate {
        return Err("nothing in it".to_owned());
    }
    sound.truncate(max_samples);
    // A DC offset is inaudible, and would click at the edges of grains.
    let pass = (-core::f64::consts::TAU * DC_CUTOFF_HZ / sample_rate).exp() as f32;
    let (mut previous_input, mut previous_output) = (sound[0], 0.0);
    for x in &mut sound {
        previous_output = *x - previous_input + pass * previous_output;
        previous_input = *x;
        *x = previous_output;
    }
    Ok(sound)
}

/// Replaces non-finite values by 0 and clamps extreme ones.
fn finite(x: f32) -> f32 {
    if x.is_finite() { x.clamp(-64.0, 64.0) } else { 0.0 }
}

fn resampled(mono: Vec<f32>, rate: u32, sample_rate: f64) -> Result<Vec<f32>, String> {
    let (from, to) = (rate as usize, sample_rate.round() as usize);
    if from == to || mono.is_empty() {
        return Ok(mono);
    }
    let count = mono.len();
    let planes = [mono];
    let input = SequentialSliceOfVecs::new(&planes, 1, count).map_err(|error| error.to_string())?;
    let filter = SincInterpolationParameters::new(256, WindowFunction::BlackmanHarris2);
    let ratio = to as f64 / from as f64;
    let mut resampler = Async::<f32>::new_sinc(ratio, 1.0, &filter, 1024, 1, FixedAsync::Input)
        .map_err(|error| error.to_string())?;
    let output = resampler
        .process_all(&input, count, None)
        .map_err(|e| e.to_string())?;
    Ok(output.take_data())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_entries_are_looked_at_in_all_and_so_deep() {
        let folder = std::env::temp_dir().join(format!("anticip-files-{}", std::process::id()));
        let places = [folder.clone(), folder.join("z"), folder.join("z/z")];
        fs::create_dir_all(&places[2]).unwrap();
        for place in &places {
            for name in ["a.wav", "b.WAV", "c.txt", "._a.wav"] {
                fs::write(place.join(name), b"").unwrap();
            }
        }
        let found = |depth, mut left| {
            let mut paths = Vec::new();
            files(&folder, depth, &mut left, &mut paths).unwrap();
            paths.len()
        };
        assert_eq!([found(8, 100), found(1, 100), found(0, 100)], [6, 4, 2]);
        // Each of the two upper folders has five entries.
        assert_eq!(
            [found(8, 14), found(8, 10), found(8, 5), found(8, 0)],
            [6, 4, 2, 0]
        );
        fs::remove_dir_all(&folder).unwrap();
    }
}
