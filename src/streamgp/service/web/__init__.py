"""HTTP: `app` puts the routes together, `security` guards them, `schemas` describes them, `measures` counts."""
