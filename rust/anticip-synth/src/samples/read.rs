//! From a folder to samples: found, decoded, brought to one rate and to mono.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use rubato::audioadapter_buffers::direct::SequentialSliceOfVecs;
use rubato::{Async, FixedAsync, Resampler, SincInterpolationParameters, WindowFunction};
use symphonia::core::codecs::audio::AudioDecoderOptions;
use symphonia::core::errors::Error;
use symphonia::core::formats::probe::Hint;
use symphonia::core::formats::{FormatOptions, TrackType};
use symphonia::core::io::{MediaSourceStream, MediaSourceStreamOptions};
use symphonia::core::meta::MetadataOptions;

use super::{Piece, describe};
use crate::error::SynthError;

/// Samples that are kept: 128 MiB, 11 minutes at 48 kHz.
const MOST: usize = (128 << 20) / size_of::<f32>();
/// Largest file that is opened, bytes.
const LARGEST: u64 = 1 << 30;
/// Files and folders that are looked at, and folders in folders.
const ENTRIES: usize = 10_000;
const DEPTH: usize = 8;
/// A shorter sound is no grain, seconds.
const SHORTEST: f64 = 0.02;
/// Where what is constant ends and sound begins, Hz.
const LOWEST: f64 = 20.0;
/// Power of the mean of all channels over that of the loudest below which they cancel each other.
const CANCELLED: f64 = 0.01;
const KINDS: [&str; 9] = ["wav", "wave", "bwf", "flac", "ogg", "oga", "mp3", "aif", "aiff"];
/// Kinds of sound that are not read: left out, and told of.
const OTHERS: [&str; 12] = [
    "m4a", "m4b", "mp4", "aac", "opus", "wma", "caf", "ape", "wv", "amr", "au", "w64",
];
/// Files that are left out by name, the first ones.
const TOLD: usize = 5;

/// All sounds one after another, and their pieces.
pub(super) struct Found {
    pub(super) sound: Vec<f32>,
    pub(super) pieces: Vec<Piece>,
    pub(super) summary: String,
}

/// A file whose name says that it is sound, and why it is not read.
type Named = (PathBuf, Option<&'static str>);

/// Files whose names say that they are sound, by name; those of another are not seen, nor what is hidden.
fn files(folder: &Path, depth: usize, left: &mut usize, found: &mut Vec<Named>) -> std::io::Result<()> {
    let mut inside: Vec<_> = fs::read_dir(folder)?.take(*left).collect::<Result<_, _>>()?;
    *left -= inside.len();
    inside.sort_by_key(fs::DirEntry::file_name);
    for entry in inside {
        // Beside each file macOS lays its own of that name on a disk of others, `._a.wav`.
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            if depth > 0 {
                // A folder inside that is closed to us holds nothing for us.
                let _ = files(&path, depth - 1, left, found);
            }
            continue;
        }
        let known = path.extension().and_then(|kind| kind.to_str());
        let kind = known.map(str::to_ascii_lowercase).unwrap_or_default();
        // Of a link what it leads to; one to a folder may lead round.
        let plain = fs::metadata(&path).is_ok_and(|what| what.is_file());
        if KINDS.contains(&kind.as_str()) {
            found.push((path, (!plain).then_some("no file")));
        } else if plain && OTHERS.contains(&kind.as_str()) {
            found.push((path, Some("its format is not read")));
        }
    }
    Ok(())
}

/// Whether a folder has a file that is read, by the names.
pub(super) fn any(folder: &Path) -> bool {
    let mut paths = Vec::new();
    let looked = files(folder, DEPTH, &mut ENTRIES.clone(), &mut paths);
    looked.is_ok() && paths.iter().any(|(_, unread)| unread.is_none())
}

/// The sounds of a folder at `sample_rate`.
pub(super) fn folder(folder: &Path, sample_rate: f64) -> Result<Found, SynthError> {
    let named = |what: &str| SynthError::Samples(format!("{}: {what}", folder.display()));
    let mut paths = Vec::new();
    files(folder, DEPTH, &mut ENTRIES.clone(), &mut paths)
        .map_err(|error| named(&format!("not a folder that can be read ({error})")))?;
    let mut found = Found {
        sound: Vec::new(),
        pieces: Vec::new(),
        summary: String::new(),
    };
    let (mut count, mut more, mut full) = (0, 0, false);
    let mut passed = Vec::new();
    for (path, unread) in &paths {
        let left = MOST - found.sound.len();
        full |= left < (SHORTEST * sample_rate) as usize;
        let added = match unread {
            Some(why) => Err((*why).to_owned()),
            None if full => {
                more += 1;
                continue;
            }
            None => {
                // A decoder that gives up on a damaged file in the hard way takes nobody along.
                catch_unwind(AssertUnwindSafe(|| decoded(path, sample_rate, left, None)))
                    .unwrap_or_else(|_| Err("damaged".to_owned()))
                    .and_then(|sound| found.add(&sound, sample_rate))
            }
        };
        match added {
            Ok(()) => {
                count += 1;
                full = found.sound.len() == MOST;
            }
            Err(problem) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let name = name.replace(char::is_control, "?");
                passed.push(format!("{name}: {problem}"));
            }
        }
    }
    let mut why = passed[..passed.len().min(TOLD)].join("; ");
    if passed.len() > TOLD {
        why += &format!("; {} more", passed.len() - TOLD);
    }
    if count == 0 {
        return Err(named(&if why.is_empty() {
            "no sound in it (expected WAV, FLAC, Ogg Vorbis, MP3 or AIFF)".to_owned()
        } else {
            format!("no sound in it ({why})")
        }));
    }
    let seconds = found.sound.len() as f64 / sample_rate;
    found.summary = format!("{}: {count} sounds, {seconds:.1} s", folder.display());
    if full {
        found.summary +=
            &format!("; the memory for them (128 MiB) is full, {more} more and the end of the last left out");
    }
    if !passed.is_empty() {
        found.summary += &format!("; {} left out ({why})", passed.len());
    }
    Ok(found)
}

impl Found {
    /// Adds a sound of which something can be heard.
    fn add(&mut self, sound: &[f32], sample_rate: f64) -> Result<(), String> {
        let (start, before) = (self.sound.len(), self.pieces.len());
        self.sound.extend(sound);
        let range = start..self.sound.len();
        describe::pieces(&self.sound, range, sample_rate as f32, &mut self.pieces);
        if self.pieces.len() == before {
            self.sound.truncate(start);
            return Err("nothing in it can be heard".to_owned());
        }
        Ok(())
    }
}

/// A file in mono, at most `most` samples at `sample_rate`: one channel of it, or the mean of all and, where they cancel
/// each other, the loudest.
fn decoded(path: &Path, sample_rate: f64, most: usize, channel: Option<usize>) -> Result<Vec<f32>, String> {
    let reason = |error: Error| match error {
        Error::Unsupported(_) => "its format or coding is not read".to_owned(),
        other => other.to_string(),
    };
    let file = fs::File::open(path).map_err(|error| error.to_string())?;
    let length = file.metadata().map_err(|error| error.to_string())?.len();
    if length > LARGEST {
        return Err(format!(
            "{} MiB, at most {} are read",
            length >> 20,
            LARGEST >> 20
        ));
    }
    let stream = MediaSourceStream::new(Box::new(file), MediaSourceStreamOptions::default());
    let mut format = symphonia::default::get_probe()
        .probe(
            &Hint::new(),
            stream,
            FormatOptions::default(),
            MetadataOptions::default(),
        )
        .map_err(reason)?;
    let track = format.default_track(TrackType::Audio).ok_or("no sound in it")?;
    let id = track.id;
    let codec = track.codec_params.as_ref().and_then(|codec| codec.audio());
    let mut decoder = symphonia::default::get_codecs()
        .make_audio_decoder(codec.ok_or("no sound in it")?, &AudioDecoderOptions::default())
        .map_err(reason)?;
    let (mut mono, mut block, mut rate) = (Vec::new(), Vec::<f32>::new(), 0);
    let (mut power, mut powers) = (0.0, Vec::<f64>::new());
    loop {
        let packet = match format.next_packet() {
            Ok(Some(packet)) => packet,
            // What was cut off is used as far as it goes.
            Ok(None) | Err(Error::IoError(_) | Error::ResetRequired) => break,
            Err(error) => return Err(reason(error)),
        };
        if packet.track_id != id {
            continue;
        }
        let buffer = match decoder.decode(&packet) {
            Ok(buffer) => buffer,
            Err(Error::DecodeError(_) | Error::IoError(_)) => continue,
            Err(error) => return Err(reason(error)),
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
        if mono.len() as f64 * sample_rate >= most as f64 * f64::from(rate) {
            break;
        }
    }
    let loudest = powers.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    if let Some((loudest, most_power)) = loudest
        && channel.is_none()
        && power < CANCELLED * most_power
    {
        return decoded(path, sample_rate, most, Some(loudest));
    }
    let mut sound = resampled(mono, rate, sample_rate)?;
    if (sound.len() as f64) < SHORTEST * sample_rate {
        return Err("nothing in it".to_owned());
    }
    sound.truncate(most);
    // What is constant is no sound, and would click at the edges of grains.
    let pass = (-core::f64::consts::TAU * LOWEST / sample_rate).exp() as f32;
    let (mut before, mut last) = (sound[0], 0.0);
    for x in &mut sound {
        last = *x - before + pass * last;
        before = *x;
        *x = last;
    }
    Ok(sound)
}

/// What is no number is silence.
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
        // Of each of the upper folders there are five.
        assert_eq!(
            [found(8, 14), found(8, 10), found(8, 5), found(8, 0)],
            [6, 4, 2, 0]
        );
        fs::remove_dir_all(&folder).unwrap();
    }
}
