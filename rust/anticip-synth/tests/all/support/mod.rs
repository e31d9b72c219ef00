//! A generated folder of sounds for the presets that need one.

use std::sync::{Arc, LazyLock};

use anticip_synth::{Samples, Settings};

static SAMPLES: LazyLock<Arc<Samples>> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("anticip-samples-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut state = 1_u32;
    for (n, frequency) in [110.0, 330.0, 880.0_f32].into_iter().enumerate() {
        let mut bytes = Vec::new();
        for i in 0..24_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let noise = (state >> 8) as f32 / (1 << 23) as f32 - 1.0;
            let tone = (i as f32 * frequency / 32_000.0).fract() - 0.5;
            let fall = (-((i % 8_000) as f32) / 3_000.0).exp();
            bytes.extend((((0.5 * tone + 0.1 * n as f32 * noise) * fall * 20_000.0) as i16).to_le_bytes());
        }
        let mut wav = b"RIFF\0\0\0\0WAVEfmt ".to_vec();
        wav[4..8].copy_from_slice(&(36 + bytes.len() as u32).to_le_bytes());
        for field in [16_u32, 1 | 1 << 16, 32_000, 64_000, 2 | 16 << 16] {
            wav.extend(field.to_le_bytes());
        }
        wav.extend(b"data");
        wav.extend((bytes.len() as u32).to_le_bytes());
        wav.extend(bytes);
        std::fs::write(folder.join(format!("{n}.wav")), wav).unwrap();
    }
    let samples = Samples::read(&folder, 48_000.0).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    Arc::new(samples)
});

/// Settings for 48 kHz with which every preset can be played.
pub(crate) fn settings(seed: u64, preset: Option<&str>) -> Settings {
    Settings {
        seed,
        preset: preset.map(str::to_owned),
        samples: Some(SAMPLES.clone()),
        ..Settings::default()
    }
}
