"""Where real data lies outside what simulation covers, in the words of the data."""
