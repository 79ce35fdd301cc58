"""The papers' own structures behind the protocols of the product, for comparison; nothing depends on them."""
