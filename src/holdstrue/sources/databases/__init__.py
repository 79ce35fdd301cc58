"""Tables and queries of databases, each kind in its module, as `OuterTable`s."""
