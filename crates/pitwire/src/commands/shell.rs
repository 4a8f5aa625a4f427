//! `pitwire completions` and `pitwire man`: files for the shell and for `man`.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;
use pitwire_failure::Failure;

use pitwire_terminal::output::say;

const COMPLETIONS: &str = "Examples:
  pitwire completions bash > ~/.local/share/bash-completion/completions/pitwire
      a new shell completes commands and options
  pitwire completions zsh > \"${fpath[1]}/_pitwire\"
      for zsh; fish, elvish and powershell work likewise";

const MAN: &str = "Examples:
  pitwire man > pitwire.1
      one page about the options of all commands; read it with man ./pitwire.1
  pitwire man --out ~/.local/share/man/man1
      one page for each command, such as pitwire-split.1";

/// Print the completions of a shell.
#[derive(Args)]
#[command(after_help = COMPLETIONS)]
pub struct Completions {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    /// Prints the completions of a shell.
    ///
    /// # Errors
    /// Never; all commands have this signature.
    pub fn run(self, mut command: Command) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "pitwire", &mut script);
        say(String::from_utf8_lossy(&script).trim_end());
        Ok(())
    }
}

/// Print the manual page, or write one page for each command.
#[derive(Args)]
#[command(after_help = MAN)]
pub struct Man {
    /// Directory for the pages of all commands. It is created if it does not exist.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Man {
    /// Prints one manual page, or writes all to a directory.
    ///
    /// # Errors
    /// If the directory cannot be created or written.
    pub fn run(self, command: Command) -> Result<(), Failure> {
        // Pages of subcommands need the name of their parents.
        let mut command = command.disable_help_subcommand(true);
        command.build();
        let Some(directory) = self.out else {
            let mut page = Vec::new();
            render(&command, &mut page)?;
            say(String::from_utf8_lossy(&page).trim_end());
            return Ok(());
        };
        let failed = |error: std::io::Error| {
            Failure::new(format!("cannot write manual pages to {}: {error}", directory.display()))
                .remedy("name a directory that you may write to")
        };
        std::fs::create_dir_all(&directory).map_err(failed)?;
        clap_mangen::generate_to(command, &directory).map_err(failed)
    }
}

/// Renders the page of a command and, as sections, the options of its subcommands.
fn render(command: &Command, page: &mut Vec<u8>) -> std::io::Result<()> {
    let man = clap_mangen::Man::new(command.clone());
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    man.render_subcommands_section(page)?;
    for subcommand in command.get_subcommands() {
        writeln!(page, ".SH \"{}\"", subcommand.get_display_name().unwrap_or(subcommand.get_name()).to_uppercase())?;
        let man = clap_mangen::Man::new(subcommand.clone());
        man.render_description_section(page)?;
        man.render_options_section(page)?;
    }
    man.render_extra_section(page)?;
    man.render_version_section(page)
}
