"""The declaration of what the live service adds to the core."""

from streamgp.annexes import Annex

ANNEX = Annex(
    commands={
        "serve": "streamgp.service.command:serve",
        "backup": "streamgp.service.backup_command:backup",
        "restore": "streamgp.service.restore_command:restore",
        "check": "streamgp.service.check_command:check",
        "promote": "streamgp.service.promote_command:promote",
    }
)
