//! The monthly cost of storage.

use std::path::Path;
use std::str::FromStr;

use kickcache_command::exit::Failure;
use kickcache_units::Size;
use serde::Deserialize;

use crate::cli::simulate::input;

/// The most decimals of an amount.
const DECIMALS_MAX: u8 = 6;

/// Money for a byte and a month.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Price(f64);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Storage {
    Cache,
    Origin,
    Fast,
}

/// A price from the command line, such as `cache=0.08/GiB-month`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct NamedPrice {
    storage: Storage,
    price: Price,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Prices {
    pub(crate) currency: String,
    pub(crate) cache: Option<Price>,
    pub(crate) origin: Option<Price>,
    /// The price of a fast device with all data.
    pub(crate) fast: Option<Price>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceFile {
    #[serde(default)]
    currency: String,
    cache: Option<String>,
    origin: Option<String>,
    fast: Option<String>,
}

impl FromStr for Price {
    type Err = String;

    fn from_str(text: &str) -> Result<Price, String> {
        let wrong = || {
            format!(
                "`{text}` is not a price; write an amount for a size and a month, such as 0.08/GiB-month or \
                 3.23/25GB-month"
            )
        };
        let (amount, size) = text.split_once('/').ok_or_else(wrong)?;
        let size = size.strip_suffix("-month").ok_or_else(wrong)?;
        let size =
            if size.starts_with(|c: char| c.is_ascii_digit()) { size.into() } else { format!("1{size}") };
        let bytes = size.parse::<Size>().map_err(|_| wrong())?.bytes();
        let amount = amount.parse::<f64>().ok().filter(|amount| amount.is_finite() && *amount >= 0.0);
        let amount = amount.filter(|_| bytes > 0).ok_or_else(wrong)?;
        Ok(Price(amount / bytes as f64))
    }
}

impl Price {
    pub(crate) fn of(self, bytes: u64) -> f64 {
        self.0 * bytes as f64
    }
}

impl FromStr for NamedPrice {
    type Err = String;

    fn from_str(text: &str) -> Result<NamedPrice, String> {
        let (name, price) = text.split_once('=').unwrap_or((text, ""));
        let storage = match name {
            "cache" => Storage::Cache,
            "origin" => Storage::Origin,
            "fast" => Storage::Fast,
            _ => {
                return Err(format!(
                    "`{text}` is not a price of cache, origin or fast; write such as cache=0.08/GiB-month"
                ));
            }
        };
        Ok(NamedPrice { storage, price: price.parse()? })
    }
}

impl Prices {
    /// The prices of the command line, and otherwise of the file.
    pub(crate) fn read(file: Option<&Path>, named: &[NamedPrice]) -> Result<Prices, Failure> {
        let mut prices = file.map(of_file).transpose()?.unwrap_or_default();
        for NamedPrice { storage, price } in named.iter().copied() {
            match storage {
                Storage::Cache => prices.cache = Some(price),
                Storage::Origin => prices.origin = Some(price),
                Storage::Fast => prices.fast = Some(price),
            }
        }
        Ok(prices)
    }

    pub(crate) fn are_known(&self) -> bool {
        self.cache.is_some() || self.origin.is_some() || self.fast.is_some()
    }

    pub(crate) fn show(&self, amount: f64) -> String {
        let decimals = match amount {
            1_000.0.. => 0,
            _ if amount > 0.0 && amount < 1.0 => decimals_below_one(amount),
            _ => 2,
        };
        let text = format!("{amount:.decimals$}");
        if self.currency.is_empty() { text } else { format!("{text} {}", self.currency) }
    }
}

/// The decimals that show two digits of an amount below 1, at most [`DECIMALS_MAX`].
fn decimals_below_one(amount: f64) -> usize {
    (2..DECIMALS_MAX)
        .find(|decimals| amount * 10_f64.powi(i32::from(*decimals)) >= 10.0)
        .unwrap_or(DECIMALS_MAX)
        .into()
}

fn of_file(path: &Path) -> Result<Prices, Failure> {
    let name = path.display();
    let text = input::read("file of prices", path)?;
    let file: PriceFile = toml::from_str(&text).map_err(|error| {
        Failure::usage(format!(
            "the file of prices {name}: {}; it may have currency, cache, origin and fast",
            error.message()
        ))
    })?;
    let price = |key: &str, text: Option<String>| {
        let parsed = text.map(|text| text.parse::<Price>()).transpose();
        parsed.map_err(|wrong| Failure::usage(format!("the file of prices {name}, {key}: {wrong}")))
    };
    Ok(Prices {
        currency: file.currency,
        cache: price("cache", file.cache)?,
        origin: price("origin", file.origin)?,
        fast: price("fast", file.fast)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_an_amount_per_size_and_month() {
        let of = |text: &str, bytes: u64| text.parse::<Price>().unwrap().of(bytes);
        assert!((of("3.23/25GB-month", 25_000_000_000) - 3.23).abs() < 1e-9);
        assert!((of("0.08/GiB-month", 10 << 30) - 0.8).abs() < 1e-9);
        for bad in
            ["", "3", "3/GiB", "3/0GiB-month", "x/GiB-month", "-1/GiB-month", "inf/GiB-month", "3/Gib-year"]
        {
            assert!(bad.parse::<Price>().unwrap_err().contains("is not a price"), "{bad}");
        }
        assert!("disk=1/GiB-month".parse::<NamedPrice>().unwrap_err().contains("cache, origin or fast"));
    }

    #[test]
    fn a_price_flag_has_precedence_over_the_file() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/prices.toml");
        let typed = ["cache=1/GB-month".parse().unwrap()];
        let prices = Prices::read(Some(&path), &typed).unwrap();
        let of = |price: Option<Price>| price.unwrap().of(100_000_000_000);
        assert!((of(prices.cache) - 100.0).abs() < 1e-9);
        assert!((of(prices.origin) - 3.07).abs() < 1e-9);
        assert!((of(prices.fast) - 12.90).abs() < 1e-9);
        assert_eq!(prices.show(6.3), "6.30 $");
    }

    #[test]
    fn small_amounts_have_two_digits() {
        let shown = [0.0, 0.000_000_1, 0.001_3, 0.012, 0.05, 0.5, 1.0, 999.0, 1_234.5]
            .map(|amount| Prices::default().show(amount));
        assert_eq!(shown, ["0.00", "0.000000", "0.0013", "0.012", "0.050", "0.50", "1.00", "999.00", "1234"]);
    }
}
