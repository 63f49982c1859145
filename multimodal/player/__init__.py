"""The browser side: `product-tour.js`, which a page loads, the module that follows by itself, and types. Data only."""
