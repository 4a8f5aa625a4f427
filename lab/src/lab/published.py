"""The tables that the study of 2020 printed. The scoring code is checked against them.

Every number was typed from the study (M. Papík, Teesside University, 24 August 2020), none is
computed here. Latencies are in milliseconds. Columns follow the order of `LANGUAGES`.
"""

LANGUAGES = ("C++", "Go", "Java", "JavaScript", "PHP", "Python")
METRICS = ("Maximum", "Q3", "Median", "Q1", "Minimum")
EXCHANGES = ("Binance", "Bithumb", "Gemini")

# Tables 8, 9 and 10: the five-number summary for each exchange, in milliseconds.
FIVE_NUMBERS: dict[str, dict[str, tuple[int, ...]]] = {
    "Binance": {
        "Maximum": (135, 138, 178, 135, 134, 137),
        "Q3": (126, 128, 144, 125, 127, 128),
        "Median": (121, 123, 125, 121, 123, 124),
        "Q1": (120, 121, 120, 120, 122, 122),
        "Minimum": (112, 114, 114, 113, 115, 114),
    },
    "Bithumb": {
        "Maximum": (100, 101, 116, 102, 102, 101),
        "Q3": (90, 91, 97, 90, 92, 91),
        "Median": (86, 87, 88, 86, 88, 86),
        "Q1": (83, 84, 84, 82, 85, 84),
        "Minimum": (79, 79, 79, 78, 80, 80),
    },
    "Gemini": {
        "Maximum": (146, 204, 350, 244, 164, 248),
        "Q3": (90, 115, 175, 131, 101, 133),
        "Median": (61, 67, 73, 68, 66, 67),
        "Q1": (53, 56, 57, 55, 57, 55),
        "Minimum": (46, 46, 45, 47, 46, 46),
    },
}

# Table 11: the score of each metric over the three exchanges.
METRIC_SCORES: dict[str, tuple[str, ...]] = {
    "Maximum": ("5.67", "3.67", "1.00", "3.67", "4.67", "3.33"),
    "Q3": ("5.67", "3.67", "1.00", "5.00", "3.67", "3.00"),
    "Median": ("6.00", "3.67", "1.33", "4.67", "3.67", "4.00"),
    "Q1": ("5.67", "3.33", "4.00", "5.67", "1.67", "3.67"),
    "Minimum": ("5.33", "4.67", "5.00", "4.00", "2.67", "3.67"),
}

# Table 12: the final scores.
FINAL_SCORES = ("5.67", "3.80", "2.47", "4.60", "3.27", "3.53")

# Section 3.1 and Table 6: messages that the study received, and its printed times.
MESSAGES = {"Binance": 206_982_664, "Bithumb": 235_393_476, "Gemini": 92_833_799}
CLAIMED_HOURS = 100
PRINTED_START = "2020-08-01T00:00"
PRINTED_END = "2020-08-04T04:00"
