"""The browser side: `product-tour.js`, one ES module that a page loads, and its types. Data only."""
