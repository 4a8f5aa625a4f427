//! The options of `pitwire tui`.

use std::time::Duration;

use clap::Args;
use pitwire_client::{CredentialError, Credentials, Error, Number};
use pitwire_client_commands::confirmation::ConfirmationBound;
use pitwire_client_commands::reach::VenueOptions;
use pitwire_failure::Failure;
use tokio::runtime::Builder;

use crate::run::{ScreenOptions, run};
use crate::terminal_guard;

const EXAMPLES: &str = "Credentials are found as for `pitwire trade`. Without them the screen shows market data only.
Press ? for the keys. It needs 80x22 characters, and works over SSH: `ssh -t HOST pitwire tui`.

Examples:
  pitwire tui NPN_ZAR
      the ladder of NPN_ZAR on the venue of this machine
  PITWIRE_CLIENT_ID=demo-a PITWIRE_CLIENT_SECRET=demo-a-secret pitwire tui --confirm-above 100
      with a login, and a question before each order above 100";

/// Trade on a venue in the terminal: ladder, trades, own orders, positions, latencies.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Tui {
    /// Name of the first instrument, such as BTC_USDC. The default is the first by name.
    instrument: Option<String>,
    #[command(flatten)]
    venue: VenueOptions,
    /// Ask before an order of a larger amount is sent. Default: $PITWIRE_CONFIRM_ABOVE, else never.
    #[arg(long, value_name = "AMOUNT")]
    confirm_above: Option<Number>,
    /// Send orders at the key b, s, B, S, t or T, without a ticket.
    #[arg(long)]
    one_key: bool,
    /// The venue cancels your orders of this screen when its connection closes.
    #[arg(long)]
    cancel_on_disconnect: bool,
    /// The venue refuses an order that it reads later than this, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    valid_for: u64,
    /// Most drawings per second. A slow link needs fewer.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=60))]
    frames: u32,
}

impl Tui {
    /// Shows the screen until the user quits.
    ///
    /// # Errors
    ///
    /// Fails without a terminal, with wrong credentials, if the venue cannot be reached, and if the
    /// connection ends for good.
    pub fn run(self) -> Result<(), Failure> {
        terminal_guard::require()?;
        let credentials = match Credentials::find() {
            Ok(credentials) => Some(credentials),
            Err(CredentialError::Missing { .. }) => None,
            Err(error) => return Err(Error::from(error).into()),
        };
        let options = ScreenOptions {
            settings: self.venue.settings(None),
            credentials,
            validity: Duration::from_secs(self.valid_for),
            cancel_on_disconnect: self.cancel_on_disconnect,
            instrument: self.instrument,
            confirmation: ConfirmationBound::find(self.confirm_above.as_ref())?,
            is_one_key: self.one_key,
            frames_per_s: self.frames,
        };
        // The connections have a thread of their own, so that a slow terminal delays no order.
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| Failure::new(format!("cannot start the event loop: {error}")))?;
        runtime.block_on(run(options))
    }
}
