"""Tables that change elsewhere, followed from where one stopped: by their versions, or by a column that grows."""
