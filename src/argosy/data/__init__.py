"""Read, tokenise, cache and order the text a site may see, where it lies."""
